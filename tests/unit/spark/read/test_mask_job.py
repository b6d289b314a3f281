from __future__ import annotations

import dataclasses

import pyarrow as pa
import pytest

from tidelake.catalog import open_catalog
from tidelake.fileio import MemoryFileIO
from tidelake.scan import split_to_bytes
from tidelake.scan.masks import MaskCache, find_masks
from tidelake.spark.read import mask_job
from tidelake.spark.read.mask_job import MasksTask, mask_computer, of_bits
from tidelake.spark.read.shares import by_number
from tidelake.telemetry import Env, Memory
from tidelake.types import DataField, parse_type


@pytest.fixture
def table():
    """Runs of distinct keys with memory for 2000 fresh ones."""
    memory = dataclasses.replace(Memory.of(64 << 20), sort_keys_bytes=2000 * 64)
    catalog = open_catalog(
        "/w", fileio=MemoryFileIO(), env=dataclasses.replace(Env.seeded(3), memory=memory)
    )
    fields = [
        DataField(0, "k", parse_type("STRING NOT NULL")),
        DataField(1, "v", parse_type("INT")),
    ]
    options = {"bucket": 1, "write-only": "true"}
    table = catalog.create_table("db.t", fields, primary_keys=["k"], options=options)
    write(table, 3000)
    return table


def write(table, count, first=""):
    keys = [first, *(f"{n:05}" for n in range(count - 1))]
    table.write(pa.table({"k": keys, "v": pa.array(range(count), pa.int32())}))


def sections_of(table):
    planned = table.scan()
    splits = planned.plan.splits
    return planned.context, [(s, section) for s in splits for section in s.sections]


class Job:
    """Runs the tasks of a job here."""

    def __init__(self):
        self.counts = []

    def __call__(self, _, context, requests, *, tasks_max):
        assert tasks_max >= 1
        self.counts.append(len(requests))
        parts = [r.split.part((r.section,)) for r in requests]
        shares = [[(number, split_to_bytes(part))] for number, part in enumerate(parts)]
        read = by_number(shares, MasksTask(context).masks)
        numbers = pa.RecordBatch.from_pydict({"id": range(len(shares))})
        found = [{} for _ in requests]
        for batch in read(iter([numbers])):
            (row,) = batch.to_pylist()
            found[row["request"]][row["file"]] = row["mask"]
        for request, own in zip(requests, found, strict=True):
            yield request, None if None in own else of_bits(request, own)


@pytest.fixture
def job(monkeypatch):
    job = Job()
    monkeypatch.setattr(mask_job, "DRIVER_ROWS_MAX", 0)
    monkeypatch.setattr(mask_job, "_by_job", job)
    return job


def hidden_counts(table, cache):
    context, sections = sections_of(table)
    (masks,) = find_masks(context, sections, cache, compute=mask_computer(None))
    if masks is None:
        return None
    return sorted(hidden.hidden_count for hidden in masks.hidden.values())


def test_what_fits_only_with_what_the_driver_knows_is_computed_there(table, job):
    cache = MaskCache()
    write(table, 1500)
    assert hidden_counts(table, cache) == [1500]
    assert job.counts == [1]
    write(table, 1200)  # 2700 fresh keys for a task, 1200 here
    assert hidden_counts(table, cache) == [1200, 1500]
    assert job.counts == [1, 0]
    assert hidden_counts(table, MaskCache()) is None
    assert job.counts == [1, 0]


def test_a_task_whose_fresh_keys_are_too_long_gives_no_mask(table, job):
    cache = MaskCache()
    write(table, 1500, first="x" * 300)
    assert hidden_counts(table, cache) is None
    assert job.counts == [1]
    assert hidden_counts(table, cache) is None
    assert job.counts == [1]
