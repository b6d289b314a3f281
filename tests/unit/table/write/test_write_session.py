"""Rows given little by little are one commit, or none."""

from __future__ import annotations

import pathlib

import pyarrow as pa
import pytest

import tidelake
from tidelake import ClosedError, InvalidInputError
from tidelake.fileio import MemoryFileIO


def row(k, v="a"):
    return {"k": k, "v": v, "n": k}


def data_files(table):
    return list(pathlib.Path(table.paths.location).rglob("data-*"))


def test_a_clean_end_commits_everything_once(keyed):
    with keyed.writer() as out:
        out.write([row(1), row(2)])
        assert keyed.latest_snapshot_id is None
        out.write(pa.Table.from_pylist([row(1, "b")], schema=keyed.schema))
        out.write([row(2)], row_kinds=["-D"])
        assert out.result is None
    assert out.result.snapshot_ids == (1,)  # type: ignore[attr-defined]
    assert out.result.rows == 4  # type: ignore[attr-defined]
    assert keyed.to_arrow().to_pylist() == [row(1, "b")]


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_an_exception_gives_everything_up(keyed, error):
    def work():
        with keyed.writer() as out:
            out.write([row(1)])
            raise error

    with pytest.raises(error):
        work()
    assert keyed.latest_snapshot_id is None
    assert data_files(keyed) == []


def test_a_write_that_failed_is_never_half_committed(keyed):
    def batches():
        yield [row(2)]
        yield [{"k": None, "v": "x", "n": 1}]

    def work():
        with keyed.writer() as out:
            out.write([row(1)])
            with pytest.raises(InvalidInputError):
                out.write(batches())

    with pytest.raises(ClosedError, match="committed or aborted"):
        work()
    assert keyed.latest_snapshot_id is None
    assert data_files(keyed) == []


def test_commit_and_abort_may_be_called_inside(appended):
    with appended.writer() as out:
        out.write([row(1)])
        assert out.commit().rows == 1
        with pytest.raises(ClosedError, match="open a new one"):
            out.write([row(2)])
        with pytest.raises(ClosedError):
            out.commit()
        out.abort()
    assert appended.count() == 1
    with appended.writer() as out:
        out.write([row(3)])
        out.abort()
    assert out.result is None
    assert appended.count() == 1
    assert len(data_files(appended)) == 1


def test_nothing_written_is_nothing_committed(keyed):
    with keyed.writer() as out:
        pass
    assert out.result.snapshot_ids == ()
    assert keyed.latest_snapshot_id is None


def test_a_repeated_identity_does_nothing(keyed):
    for number in range(2):
        with keyed.writer(commit_user="job", commit_identifier=7) as out:
            out.write([row(number)])
        assert out.result.already_committed == (number == 1)
    assert keyed.to_arrow().to_pylist() == [row(0)]
    assert len(data_files(keyed)) == 1


def test_a_bad_table_is_refused_when_the_writer_is_opened(catalog, keyed):
    with pytest.raises(InvalidInputError, match="together"):
        keyed.writer(commit_user="job")


class Remote(MemoryFileIO):
    @property
    def is_remote(self):
        return True


def others(table):
    for n in range(3):
        table.write([{"k": k, "v": f"other {n}"} for k in range(20)])


def by_a_session(table):
    with table.writer() as out:
        others(table)
        out.write([{"k": 1, "v": "mine"}])


def by_rows_that_come_slowly(table):
    def rows():
        others(table)
        yield {"k": 1, "v": "mine"}

    table.write(rows())


@pytest.mark.parametrize("write", [by_a_session, by_rows_that_come_slowly])
@pytest.mark.parametrize("files", [MemoryFileIO, Remote])
def test_rows_that_come_after_another_s_commit_win_though_the_write_began_before(files, write):
    """The first rows choose the version that they build on, on a remote storage too."""
    schema = pa.schema([("k", pa.int64()), ("v", pa.string())])
    catalog = tidelake.open("/w", fileio=files())
    table = catalog.create_table("db.t", schema, primary_keys=["k"], options={"bucket": "1"})
    write(table)
    assert table.get(1)["v"] == "mine"
