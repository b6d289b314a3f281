"""Warnings of the library beside a command's output, such as options that do nothing."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def shown_warnings() -> Iterator[None]:
    """Print what the library warns of to standard error while a command runs."""
    shown = logging.StreamHandler(sys.stderr)
    shown.setFormatter(logging.Formatter("warning: %(message)s"))
    log = logging.getLogger("tidelake")
    log.addHandler(shown)
    try:
        yield
    finally:
        log.removeHandler(shown)
