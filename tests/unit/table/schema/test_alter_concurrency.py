"""Several change a table at once: none is lost, and who is refused is told why."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

import tidelake
from tidelake import (
    AddColumn,
    AlreadyExistsError,
    ConflictError,
    NotFoundError,
    OutcomeUnknownError,
    StorageError,
)
from tidelake.fileio import MemoryFileIO, OpenDirectory
from tidelake.table.schema import alter
from tidelake.telemetry import Env

COLUMNS = pa.schema({"k": pa.int64(), "a": pa.int32(), "b": pa.string()})


class Meddled(MemoryFileIO):
    """A storage that lets somebody else act right before a name is put, or fails then."""

    def __init__(self) -> None:
        super().__init__()
        self.meddle: Callable[[str], None] | None = None
        self.fail_after = 0
        self.fail_before = 0

    def put_if_absent(self, path: str, data: bytes, **held: OpenDirectory) -> bool:
        if self.meddle is not None and "/schema-" in path:
            meddle, self.meddle = self.meddle, None
            meddle(path)
        if "/schema-" in path and self.fail_before:
            self.fail_before -= 1
            raise StorageError("not sent")
        done = super().put_if_absent(path, data, **held)
        if "/schema-" in path and self.fail_after:
            self.fail_after -= 1
            raise StorageError("no answer")
        return done


@pytest.fixture
def fileio():
    return Meddled()


@pytest.fixture
def ours(fileio):
    catalog = tidelake.open("/w", fileio=fileio, env=Env.seeded(1))
    made = catalog.create_table("db.t", COLUMNS, primary_keys=["k"], options={"bucket": 1})
    made.write([{"k": 1, "a": 1, "b": "x"}])
    return made


def opened(fileio, seed=2):
    return tidelake.open("/w", fileio=fileio, env=Env.seeded(seed)).table("db.t")


def test_of_two_at_once_both_land(fileio, ours):
    theirs = opened(fileio)
    fileio.meddle = lambda _: theirs.rename_column("a", "c") and None
    ours.add_column("d", "INT", after="k")
    now = opened(fileio, 3)
    assert now.schema.names == ["k", "d", "c", "b"]
    assert (now.table_schema.id, now.table_schema.field("d").id) == (2, 3)


def test_two_that_add_a_column_take_different_ids(fileio, ours):
    theirs = opened(fileio)
    fileio.meddle = lambda _: theirs.add_column("c", "INT") and None
    ours.add_column("d", "INT")
    assert [f.id for f in opened(fileio, 3).table_schema.fields] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("first", "second", "error"),
    [
        (lambda t: t.add_column("c", "INT"), lambda t: t.add_column("c", "DATE"),
         AlreadyExistsError),
        (lambda t: t.drop_column("a"), lambda t: t.rename_column("a", "z"), NotFoundError),
        (lambda t: t.rename_column("a", "z"), lambda t: t.retype_column("a", "INT"), NotFoundError),
    ],
)  # fmt: skip
def test_the_second_is_refused_where_the_first_is_in_its_way(fileio, ours, first, second, error):
    theirs = opened(fileio)
    fileio.meddle = lambda _: first(theirs) and None
    with pytest.raises(error):
        second(ours)
    assert opened(fileio, 3).table_schema.id == 1


def test_an_answer_that_was_lost_is_no_second_change(fileio, ours):
    fileio.fail_after = 1
    ours.add_column("c", "INT")
    assert opened(fileio).table_schema.id == 1
    fileio.fail_before = 2
    ours.add_column("d", "INT")
    assert opened(fileio).schema.names == ["k", "a", "b", "c", "d"]


def test_an_answer_that_was_lost_to_another_is_no_success(fileio, ours):
    theirs = opened(fileio)

    def meddle(_: str) -> None:
        theirs.add_column("c", "INT")
        fileio.fail_before = 1

    fileio.meddle = meddle
    ours.add_column("d", "INT")
    assert opened(fileio, 3).schema.names == ["k", "a", "b", "c", "d"]


def test_a_storage_that_fails_throughout_leaves_the_outcome_unknown(fileio, ours):
    fileio.fail_before = 100
    with pytest.raises(OutcomeUnknownError, match="open the table again"):
        ours.add_column("c", "INT")
    fileio.fail_before = 0
    assert opened(fileio).table_schema.id == 0


def test_who_loses_again_and_again_gives_up(fileio, ours, monkeypatch):
    monkeypatch.setattr(alter, "TRIES_MAX", 3)

    def meddle(_: str) -> None:
        # another writer takes the number each time
        schema = opened(fileio).table_schema
        taken = dataclasses.replace(schema, id=schema.id + 1)
        path = f"/w/db.db/t/schema/schema-{taken.id}"
        MemoryFileIO.put_if_absent(fileio, path, taken.to_json().encode())
        fileio.meddle = meddle

    fileio.meddle = meddle
    with pytest.raises(ConflictError, match=r"altered table '.+' 3 times while"):
        ours.add_column("c", "INT")


def test_an_alter_between_a_writers_check_and_its_commit_hurts_neither(fileio, ours):
    with ours.writer() as out:
        out.write([{"k": 2, "a": 2, "b": "y"}])
        opened(fileio).alter(AddColumn("c", "INT"), tidelake.UpdateColumnType("a", "STRING"))
    rows = opened(fileio, 3).to_arrow().to_pylist()
    assert sorted(r["a"] for r in rows) == ["1", "2"]
    assert {"k": 2, "a": "2", "b": "y", "c": None} in rows


def test_threads_that_add_columns_all_succeed(tmp_path):
    catalog = tidelake.open(tmp_path / "w")
    catalog.create_table("db.t", pa.schema({"k": pa.int64()}))

    def work(number: int) -> None:
        mine = tidelake.open(tmp_path / "w")
        for turn in range(3):
            mine.alter_table("db.t", [AddColumn(f"c{number}_{turn}", "INT")])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    schema = catalog.table("db.t").table_schema
    assert {f.name for f in schema.fields} == {"k"} | {
        f"c{n}_{t}" for n in range(4) for t in range(3)
    }
    assert sorted(f.id for f in schema.fields) == list(range(13))
    assert schema.id == 12
