"""What ``local-cache.*`` may hold: a cache of a remote storage's files, by Paimon's names.

===========================  ====================================================================
``local-cache.enabled``      ``false`` by default
``local-cache.dir``          an absolute path, on each machine that reads; needed
``local-cache.max-size``     about the most bytes that it takes there, 10 GiB by default
``local-cache.whitelist``    the kinds of files that are kept, with commas between; all by default
===========================  ====================================================================

Paimon's cache holds blocks, in memory where no directory is given; this one holds what was read, on
a disk (:mod:`tidelake.fileio.cached`). So the size of a block is refused, and the directory needed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from tidelake.errors import InvalidInputError, near_names, shortened
from tidelake.fileio.cached import KINDS, CachedFileIO
from tidelake.fileio.file_io import FileIO
from tidelake.options import memory_bytes
from tidelake.telemetry import Env

PREFIX = "local-cache."
ENABLED, DIRECTORY = f"{PREFIX}enabled", f"{PREFIX}dir"
MAX_SIZE, WHITELIST = f"{PREFIX}max-size", f"{PREFIX}whitelist"
KEYS = (ENABLED, DIRECTORY, MAX_SIZE, WHITELIST)
BLOCK_SIZE = f"{PREFIX}block-size"
BYTES_MAX_DEFAULT = 10 << 30
BYTES_MAX_MIN = 1 << 20
"""A smaller cache would keep next to nothing: an entry takes a sixteenth of it at most."""


@dataclass(frozen=True, slots=True)
class LocalCache:
    """A cache that is asked for.

    Parameters
    ----------
    directory : str
        Absolute.
    bytes_max : int
        About the most bytes that it takes there.
    """

    directory: str
    bytes_max: int
    kinds: frozenset[str]

    def over(self, inner: FileIO, *, place: str, env: Env) -> FileIO:
        """Put the cache before a storage; one that is near is returned as it is.

        Parameters
        ----------
        place : str
            Names it, so that several may share the directory.
        """
        if not inner.is_remote:
            return inner
        return CachedFileIO(
            inner,
            self.directory,
            bytes_max=self.bytes_max,
            place=place,
            kinds=self.kinds,
            clock=env.clock,
            ids=env.ids,
        )


def local_cache(given: Mapping[str, object]) -> LocalCache | None:
    """Parse and check the options of a cache; None if there is to be none.

    Raises
    ------
    InvalidInputError
        A key is unknown, or its value is wrong.

    Examples
    --------
    >>> asked = {"local-cache.enabled": "true", "local-cache.dir": "/cache"}
    >>> local_cache(asked).bytes_max >> 30
    10
    >>> local_cache({**asked, "local-cache.enabled": "false"})
    """
    values = {str(key): value for key, value in given.items() if str(key).startswith(PREFIX)}
    for key in values:
        if key not in KEYS:
            raise _unknown(key)
    enabled = str(values.get(ENABLED, "false")).strip().lower()
    if enabled not in {"true", "false"}:
        raise _wrong(ENABLED, "must be true or false")
    found = LocalCache(_directory(values), _bytes_max(values), _kinds(values))
    if enabled == "false":
        return None
    if not found.directory:
        raise _wrong(DIRECTORY, "is needed: give a local directory that the cache alone uses")
    return found


def _directory(values: Mapping[str, object]) -> str:
    text = str(values.get(DIRECTORY, "")).strip()
    if text and not os.path.isabs(text):
        raise _wrong(DIRECTORY, "must be an absolute path of the local disk")
    return text


def _bytes_max(values: Mapping[str, object]) -> int:
    try:
        found = memory_bytes(values.get(MAX_SIZE, BYTES_MAX_DEFAULT))
    except ValueError as error:
        raise _wrong(MAX_SIZE, f"must be {error}") from error
    if found < BYTES_MAX_MIN:
        raise _wrong(MAX_SIZE, f"must be {BYTES_MAX_MIN >> 20} mb or more")
    return found


def _kinds(values: Mapping[str, object]) -> frozenset[str]:
    if WHITELIST not in values:
        return KINDS
    found = frozenset(kind.strip() for kind in str(values[WHITELIST]).split(",") if kind.strip())
    if not found or found - KINDS:
        raise _wrong(WHITELIST, f"must be some of {', '.join(sorted(KINDS))}, with commas between")
    return found


def _wrong(key: str, problem: str) -> InvalidInputError:
    return InvalidInputError(f"Storage key '{key}' {problem}.", kind="storage_value", key=key)


def _unknown(key: str) -> InvalidInputError:
    if key == BLOCK_SIZE:
        message = f"Storage key '{key}' means nothing here: what is read is kept as it comes."
    else:
        near = near_names(key, KEYS)
        message = f"Storage key '{shortened(key)}' is unknown.{near} Known are: {', '.join(KEYS)}."
    return InvalidInputError(message, kind="storage_key", key=key)
