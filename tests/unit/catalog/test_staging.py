import pyarrow as pa
import pytest

import tidelake
from tidelake.catalog import open_catalog
from tidelake.catalog.staging import STAGING_DIRECTORY, discard, put_in_place, staged_table
from tidelake.errors import InvalidInputError, StorageError
from tidelake.fileio import MemoryFileIO

OLD, NEW = pa.schema({"a": pa.int64()}), pa.schema({"b": pa.string()})


class Failing(MemoryFileIO):
    """Fails the moves of the numbers given."""

    def __init__(self, *numbers):
        super().__init__()
        self.numbers = numbers
        self.moves = 0

    def move_dir(self, source, target):
        self.moves += 1
        if self.moves in self.numbers:
            message = "no move"
            raise StorageError(message, path=source)
        super().move_dir(source, target)


@pytest.fixture(params=["local", "memory"])
def catalog(request, tmp_path):
    return tidelake.open(tmp_path / "w") if request.param == "local" else _on(MemoryFileIO())


def _on(files):
    return open_catalog("/w", fileio=files)


def staging(catalog):
    return catalog.fileio.list_dir(f"{catalog.warehouse}/{STAGING_DIRECTORY}")


def test_a_staged_table_is_out_of_sight_until_it_takes_its_place(catalog):
    catalog.create_table("db.t", OLD).write([{"a": 1}])
    staged = staged_table(catalog, "db.t", NEW, options={"bucket": "-1"}, comment="new")
    staged.write([{"b": "x"}])
    assert catalog.list_databases() == ["db"]
    assert catalog.list_tables("db") == ["t"]
    assert catalog.table("db.t").to_arrow().to_pylist() == [{"a": 1}]
    put_in_place(catalog, staged)
    table = catalog.table("db.t")
    assert table.to_arrow().to_pylist() == [{"b": "x"}]
    assert (table.table_schema.comment, table.latest_snapshot_id) == ("new", 1)
    assert staging(catalog) == []
    table.write([{"b": "y"}])
    assert catalog.table("db.t").count() == 2


def test_a_staged_table_may_be_the_first_of_its_name_and_database(catalog):
    staged = staged_table(catalog, "new.t", NEW)
    staged.write([{"b": "x"}])
    put_in_place(catalog, staged)
    assert catalog.table("new.t").count() == 1
    discarded = staged_table(catalog, "new.t", OLD)
    discard(catalog, discarded)
    assert staging(catalog) == []
    assert catalog.table("new.t").count() == 1
    with pytest.raises(InvalidInputError):
        staged_table(catalog, "new.t", OLD, primary_keys=["nothing"])
    assert staging(catalog) == []


@pytest.mark.parametrize("numbers", [(1,), (2,)])
def test_the_old_table_is_there_where_a_move_fails(numbers):
    catalog = _on(Failing(*numbers))
    catalog.create_table("db.t", OLD).write([{"a": 1}])
    staged = staged_table(catalog, "db.t", NEW)
    staged.write([{"b": "x"}])
    with pytest.raises(StorageError, match="no move"):
        put_in_place(catalog, staged)
    assert catalog.table("db.t").to_arrow().to_pylist() == [{"a": 1}]


def test_both_tables_are_whole_where_the_process_dies_between_the_moves():
    catalog = _on(Failing(2, 3))
    catalog.create_table("db.t", OLD).write([{"a": 1}])
    staged = staged_table(catalog, "db.t", NEW)
    staged.write([{"b": "x"}])
    with pytest.raises(StorageError):
        put_in_place(catalog, staged)
    left = {entry.name for entry in staging(catalog)}
    assert len(left) == 2
    (old,) = (name for name in left if name.endswith("-replaced"))
    catalog.fileio.move_dir(f"{catalog.warehouse}/{STAGING_DIRECTORY}/{old}", "/w/db.db/t")
    assert catalog.table("db.t").to_arrow().to_pylist() == [{"a": 1}]
