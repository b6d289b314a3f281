"""Processes race, are killed, and lose their store, on MinIO and Azurite."""

from __future__ import annotations

import pytest
from proving import kill, race
from servers.real_stores import minio as start_minio
from sizes import SIZE
from stores.chosen import BY_MAKE_STORES
from stores.cut import commits_while_cut

pytestmark = BY_MAKE_STORES


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
    with start_minio() as own:

        def cut(_: int) -> None:
            own.program.kill()
            own.program.start()

        storage = own.storage(retries="2", timeout="20 s")
        print("minio", commits_while_cut(own.fresh(), storage, cut, SIZE.kills))
