"""Consumers: the progress of readers of changes, one file each, ``consumer/consumer-<id>``.

A file holds ``{"nextSnapshot": N}``: the reader has not seen what snapshot N changed, so that
snapshot, and those after it, are kept. Source: Paimon's ``ConsumerManager`` (1.3.1).
"""

from __future__ import annotations

from tidelake.errors import CorruptError, NotFoundError
from tidelake.fileio import FileIO
from tidelake.metadata.log.json_file import parse_json
from tidelake.metadata.paths import TablePaths

__all__ = ["CONSUMER_PREFIX", "next_snapshot_ids"]

CONSUMER_PREFIX = "consumer-"


def next_snapshot_ids(fileio: FileIO, paths: TablePaths) -> dict[str, int]:
    """The next snapshot of each consumer, by the consumer's id, sorted.

    Raises
    ------
    CorruptError
        A consumer's file is damaged; it is named.
    """
    found: dict[str, int] = {}
    directory = paths.consumer_dir
    for status in sorted(fileio.list_dir(directory), key=lambda s: s.name):
        if status.is_dir or not status.name.startswith(CONSUMER_PREFIX):
            continue
        path = f"{directory}/{status.name}"
        try:
            document = parse_json(fileio.read_bytes(path), path=path)
        except NotFoundError:
            continue  # it went while we looked
        next_id = document.get("nextSnapshot")
        if isinstance(next_id, bool) or not isinstance(next_id, int):
            message = f"Consumer file {path} has no nextSnapshot: delete it, or restore it."
            raise CorruptError(message, kind="consumer_file", path=path)
        found[status.name.removeprefix(CONSUMER_PREFIX)] = next_id
    return found
