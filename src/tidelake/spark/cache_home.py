"""The user's cache folder of tidelake: what is in it can be made again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def cache_home(environ: Mapping[str, str]) -> Path:
    """The folder, which need not be there.

    Raises
    ------
    RuntimeError
        The user has no home.

    Examples
    --------
    >>> cache_home({"XDG_CACHE_HOME": "/var/cache"}).as_posix()
    '/var/cache/tidelake'
    """
    base = environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tidelake"
