from __future__ import annotations

import errno
import pickle

import pyarrow as pa
import pytest

import tidelake
from tidelake.errors import CorruptError, NotEnoughMemoryError, StorageError, TidelakeError
from tidelake.fileio import MemoryFileIO
from tidelake.format import data_file
from tidelake.format.read_error import reading
from tidelake.metadata.avro import avro
from tidelake.telemetry import Env

PATH = "/w/db.db/t/bucket-0/data-1.parquet"


def raised(error: BaseException) -> TidelakeError:
    with pytest.raises(TidelakeError) as caught, reading(PATH):
        raise error
    return caught.value


@pytest.mark.parametrize(
    "error",
    [
        pa.ArrowMemoryError("malloc of size 9437184 failed"),
        pa.ArrowMemoryError("realloc of size 1099511627776 failed"),
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
    ],
)
def test_memory_that_ends_is_not_damage(error):
    found = raised(error)
    assert isinstance(found, NotEnoughMemoryError)
    assert isinstance(found, MemoryError)
    assert not isinstance(found, (CorruptError, StorageError))
    assert (found.kind, found.context) == ("memory", {"path": PATH})
    assert PATH in str(found)
    assert "memory=" in str(found)
    said = error.args[-1] if error.args else "was read. "  # empty brackets say nothing
    assert str(said) in str(found)


def test_more_than_any_file_holds_is_damage():
    found = raised(pa.ArrowMemoryError("malloc of size 1099511627777 failed"))
    assert isinstance(found, CorruptError)
    assert PATH in str(found)


def test_the_error_travels_from_an_executor():
    found = pickle.loads(pickle.dumps(raised(pa.ArrowMemoryError("malloc of size 64 failed"))))
    assert isinstance(found, NotEnoughMemoryError)
    assert found.context == {"path": PATH}


def written() -> tidelake.Table:
    catalog = tidelake.open("/w", fileio=MemoryFileIO(), env=Env.seeded(1))
    schema = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
    table = catalog.create_table("db.t", schema, primary_keys=["k"], options={"bucket": "1"})
    table.write(pa.table({"k": [1, 2], "v": ["a", "b"]}, schema=schema))
    return table


def no_memory(*_args: object, **_kw: object) -> None:
    message = "malloc of size 9437184 failed"
    raise pa.ArrowMemoryError(message)


def test_a_scan_says_which_file_it_had_no_memory_for(monkeypatch):
    table = written()
    (file,) = table.system_table("files").to_arrow()["file_path"].to_pylist()
    monkeypatch.setattr(data_file, "_READERS", {"parquet": no_memory})
    with pytest.raises(NotEnoughMemoryError, match="memory=") as caught:
        table.to_arrow()
    assert file.rpartition("/")[2] in str(caught.value)


def test_a_plan_says_which_manifest_it_had_no_memory_for(monkeypatch):
    table = tidelake.open("/w", fileio=written().fileio).table("db.t")
    monkeypatch.setattr(avro, "_decode", no_memory)
    with pytest.raises(NotEnoughMemoryError, match=r"/manifest/manifest-.*memory="):
        table.to_arrow()
