"""Processes race, are killed, and lose their store, on MinIO and Azurite."""

from __future__ import annotations

import threading

import pyarrow as pa
import pytest
from proving import fsck, kill, race
from servers.real_stores import minio as start_minio
from sizes import SIZE
from stores.chosen import BY_MAKE_STORES

import tidelake
from tidelake.errors import OutcomeUnknownError, StorageError

pytestmark = BY_MAKE_STORES

SCHEMA = pa.schema([("who", pa.int32()), ("i", pa.int64())])


@pytest.mark.timeout(5 * 3600)
def test_four_processes_lose_no_commit(store, tmp_path):
    figures = race.race(
        tmp_path,
        processes=4,
        commits=SIZE.race_commits,
        options={"bucket": "2", "num-sorted-run.compaction-trigger": "5"},
        warehouse=store.fresh(),
        storage=store.storage(),
    )
    print(store.name, figures)
    assert (figures["lost"], figures["doubled"]) == (0, 0)


@pytest.mark.timeout(5 * 3600)
def test_a_writer_that_is_killed_loses_no_acknowledged_row(store, tmp_path):
    """It upserts and compacts; after each kill the table is read."""
    figures = kill.kills(
        tmp_path,
        count=SIZE.kills,
        seed=11,
        warehouse=store.fresh(),
        storage=store.storage(),
    )
    print(store.name, figures)
    assert figures["lost"] == 0


def test_a_store_that_is_killed_during_commits_keeps_what_it_acknowledged(minio):
    """A commit whose answer is lost says that, and written again it is there once."""
    kills = SIZE.kills
    with start_minio() as own:
        storage = own.storage(retries="2", timeout="20 s")
        uri = own.fresh()
        catalog = tidelake.open(uri, storage=storage)
        catalog.create_table("db.t", SCHEMA, primary_keys=["who", "i"], options={"bucket": "1"})
        ended, unclear, acknowledged = threading.Event(), [], []

        def write(who):
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

        writers = [threading.Thread(target=write, args=(who,)) for who in range(2)]
        for writer in writers:
            writer.start()
        for _ in range(kills):
            seen = len(acknowledged)
            while len(acknowledged) < seen + 3:
                assert all(writer.is_alive() for writer in writers)
                ended.wait(0.01)
            own.program.kill()
            own.program.start()
        ended.set()
        for writer in writers:
            writer.join()
        table = tidelake.open(uri, storage=storage).table("db.t")
        found = [(row["who"], row["i"]) for row in table.to_arrow().to_pylist()]
        assert len(found) == len(set(found))
        assert set(found) >= set(acknowledged)
        assert len(set(found) - set(acknowledged)) <= 2, "one of each writer may be unheard of"
        fsck.check_table(table.fileio, table.paths.location)
        print(f"{kills} kills, {len(acknowledged)} commits, {len(unclear)} without an answer")
