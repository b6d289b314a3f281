"""The names of the data files that Iceberg's metadata of a table shows.

All metadata files that are there count, whatever the table's options say now. A list or a manifest
that is missing was retired: what it named is no longer shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tidelake.commit.context import CommitContext
from tidelake.commit.iceberg.metadata_document import parsed
from tidelake.commit.iceberg.settings import IcebergSettings
from tidelake.errors import CorruptError, NotFoundError
from tidelake.metadata.avro.avro import decode_container
from tidelake.metadata.unique_file import whole_bytes_max

_METADATA_FILE = re.compile(r"v[0-9]{1,18}\.metadata\.json")
_LIST_KEY, _DOCUMENT_BYTES_MAX = "manifest_path", 256 << 20


def shown_names(context: CommitContext) -> Iterator[str]:
    """Names of all data files that Iceberg's readers may read.

    Raises
    ------
    CorruptError
        A file of the metadata is damaged, so it is not known what it shows.
    """
    settings = IcebergSettings.of(
        context.options,
        context.paths.location,
        has_primary_key=bool(context.schema.primary_keys),
        table=context.table,
    )
    directories = {f"{context.paths.location}/metadata"}
    if settings is not None:
        directories.add(settings.metadata_dir)
    for directory in sorted(directories):
        yield from _names_in(context, directory)


def _names_in(context: CommitContext, directory: str) -> Iterator[str]:
    lists: set[str] = set()
    for status in context.fileio.list_dir(directory):
        if _METADATA_FILE.fullmatch(status.name):
            lists.update(_lists_of(context, f"{directory}/{status.name}"))
    manifests = {
        _name(record[_LIST_KEY])
        for name in sorted(lists)
        for record in _records(context, f"{directory}/{name}")
    }
    for name in sorted(manifests):
        for record in _records(context, f"{directory}/{name}"):
            yield _name(record["data_file"]["file_path"])


def _lists_of(context: CommitContext, path: str) -> Iterator[str]:
    """The names of the manifest lists in a metadata file."""
    try:
        data = context.fileio.read_bytes(path, bytes_max=_DOCUMENT_BYTES_MAX)
    except NotFoundError:
        return
    document = parsed(data)
    if document is None:
        message = (
            f"Iceberg metadata file {path} cannot be read, so it is not known which files it shows,"
            " and nothing was removed. Delete it if it is not the newest, and call sync_iceberg."
        )
        raise CorruptError(message, kind="iceberg_metadata", path=path)
    yield from (_name(snapshot["manifest-list"]) for snapshot in document["snapshots"])


def _records(context: CommitContext, path: str) -> list[dict[str, Any]]:
    try:
        data = context.fileio.read_bytes(path, bytes_max=whole_bytes_max())
    except NotFoundError:
        return []
    return decode_container(data, path=path)


def _name(address: object) -> str:
    return str(address).rpartition("/")[2]
