"""Which tests of this directory run where: the quick ones wherever the store is."""

from __future__ import annotations

import os

import pytest

BY_MAKE_STORES = pytest.mark.skipif(
    "TIDELAKE_STORES" not in os.environ, reason="takes long: `make stores` runs it"
)
