"""Checks common to manifests and manifest lists: versions and wrong fields."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tidelake.errors import CorruptError, UnsupportedError
from tidelake.metadata.manifest.manifest_schema import ENTRY_VERSION

NAME_LENGTH_MAX = 4_096
"""Characters of a file name; no file system has longer ones."""


WRONG_FIELDS = (
    LookupError,
    TypeError,
    ValueError,
    OverflowError,
    AttributeError,
    pa.ArrowException,
)
"""What wrong fields raise."""


class ManifestFields:
    """Turns the errors of wrong fields (a missing key, another type) into a CorruptError."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, WRONG_FIELDS) and not isinstance(
            error, (CorruptError, UnsupportedError)
        ):
            message = (
                f"File {self._path} does not have the fields of a manifest: {error!r}."
                " Restore it from a backup."
            )
            raise CorruptError(message, kind="manifest_file", path=self._path) from error


def check_versions(found: set[Any], path: str) -> None:
    """Refuse records of an unknown version."""
    versions = found - {ENTRY_VERSION}
    if versions:
        message = (
            f"File {path} has entries of version {sorted(versions)}; this library reads version"
            f" {ENTRY_VERSION}. Upgrade tidelake."
        )
        raise UnsupportedError(message, kind="manifest_version", path=path)
