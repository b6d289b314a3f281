"""Clustered append tables against a list of rows, crossed with what else a table may have."""

import pytest
from proving import clustered
from sizes import SIZE

from tidelake.store.append import bucket_writer

CROSSED = {
    "sorted",
    "incremental",
    "buckets",
    "tracked",
    "deletion-vectors.enabled",
    "partitions",
    "file index",
    "columns",
    "branch",
    "conflict",
    "beside write",
    "beside delete",
}


def test_clustered_tables_equal_a_list_of_rows():
    met = set()
    for seed in range(SIZE.clustered_seeds):
        met |= clustered.run_seed(seed)
    assert met >= CROSSED


def dead_rows_come_back(monkeypatch):
    whole = bucket_writer.read_batches
    monkeypatch.setattr(
        bucket_writer, "read_batches", lambda *a, **given: whole(*a, **given | {"deleted": None})
    )


def ids_are_forgotten(monkeypatch):
    whole = bucket_writer.completed

    def moved(rows, file, ordinals):
        return whole(rows, file, ordinals[::-1].copy())

    monkeypatch.setattr(bucket_writer, "completed", moved)


@pytest.mark.parametrize(("plant", "seed"), [(dead_rows_come_back, 8), (ids_are_forgotten, 0)])
def test_a_planted_bug_is_caught(plant, seed, monkeypatch):
    clustered.run_seed(seed)
    plant(monkeypatch)
    with pytest.raises(clustered.ClusteredMismatch):
        clustered.run_seed(seed)
