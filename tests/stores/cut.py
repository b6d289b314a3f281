"""Commits while a store is cut off and comes back: what was acknowledged is there, once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import pyarrow as pa
from proving import fsck

import tidelake
from tidelake.errors import OutcomeUnknownError, StorageError

__all__ = ["commits_while_cut"]

SCHEMA = pa.schema([("who", pa.int32()), ("i", pa.int64())])
WRITERS = 2
COMMITS_BETWEEN = 3
"""That are waited for before the store is cut the next time."""


def commits_while_cut(
    uri: str, storage: Mapping[str, str], cut: Callable[[int], None], count: int
) -> dict[str, int]:
    """Commit by threads while the store is cut; the figures, or AssertionError.

    A commit whose answer is lost says that, and the same one is written again.

    Parameters
    ----------
    uri, storage
        The warehouse.
    cut : callable
        Cuts the store off and brings it back; takes how often it did so before.
    count : int
        How often.
    """
    catalog = tidelake.open(uri, storage=storage)
    catalog.create_table("db.t", SCHEMA, primary_keys=["who", "i"], options={"bucket": "1"})
    ended, unclear, acknowledged = threading.Event(), [], []

    def write(who: int) -> None:
        table = tidelake.open(uri, storage=storage).table("db.t")
        i = 0
        while not ended.is_set():
            row = pa.Table.from_pylist([{"who": who, "i": i}], schema=SCHEMA)
            try:
                table.write(row, commit_user=f"w{who}", commit_identifier=i)
            except (StorageError, OutcomeUnknownError) as error:
                unclear.append(error)
                continue  # the same again
            acknowledged.append((who, i))
            i += 1

    writers = [threading.Thread(target=write, args=(who,)) for who in range(WRITERS)]
    for writer in writers:
        writer.start()
    try:
        for number in range(count):
            seen = len(acknowledged)
            while len(acknowledged) < seen + COMMITS_BETWEEN:
                assert all(writer.is_alive() for writer in writers), unclear[-1:]
                ended.wait(0.01)
            cut(number)
    finally:
        ended.set()
        for writer in writers:
            writer.join()
    table = tidelake.open(uri, storage=storage).table("db.t")
    found = [(row["who"], row["i"]) for row in table.to_arrow().to_pylist()]
    assert len(found) == len(set(found))
    assert set(found) >= set(acknowledged)
    assert len(set(found) - set(acknowledged)) <= WRITERS, "one of each writer may be unheard of"
    fsck.check_table(table.fileio, table.paths.location)
    return {"cuts": count, "commits": len(acknowledged), "without_an_answer": len(unclear)}
