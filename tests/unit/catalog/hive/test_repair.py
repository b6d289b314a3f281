"""Entries that say something else than the files, or nothing, are made anew."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

import tidelake
from tidelake import (
    AddColumn,
    AlreadyExistsError,
    InvalidInputError,
    NotFoundError,
    RemoveOption,
    SetOption,
    UnsupportedError,
)
from tidelake.catalog.hive.register import EXTERNAL
from tidelake.maintenance.procedures import call

SCHEMA = pa.schema({"k": pa.int64(), "day": pa.string()})


def entry(catalog, name):
    return catalog.metastore.register.table(*name.split("."))


def beside(catalog):
    """The same warehouse without a metastore."""
    return tidelake.open(catalog.warehouse)


def partitions(catalog, name):
    register = catalog.metastore.register
    return sorted(one.values for one in register.partitions(register.table(*name.split("."))))


def test_tables_that_are_not_listed_are_listed(either):
    files = beside(either)
    for name in ("one.a", "one.b", "two.c"):
        files.create_table(name, SCHEMA, primary_keys=["k"], options={"bucket": 2})
    files.table("one.a").write([{"k": 1, "day": "mon"}])
    assert either.repair() == {"one.a": "created", "one.b": "created", "two.c": "created"}
    assert either.list_tables("one") == ["a", "b"]
    assert either.table("one.a").to_arrow().to_pylist() == [{"k": 1, "day": "mon"}]
    assert entry(either, "two.c").parameters["primary-key"] == "k"
    assert either.repair() == {"one.a": "unchanged", "one.b": "unchanged", "two.c": "unchanged"}
    # as a create by the catalog would have listed it
    either.create_table("two.d", SCHEMA, primary_keys=["k"], options={"bucket": 2})
    made, found = entry(either, "two.d"), entry(either, "two.c")
    assert found.columns == made.columns
    assert found.parameters.keys() == made.parameters.keys()


def test_one_database_or_one_table(either):
    files = beside(either)
    for name in ("one.a", "one.b", "two.c"):
        files.create_table(name, SCHEMA)
    assert either.repair("one.b") == {"one.b": "created"}
    assert either.list_tables("one") == ["b"]
    assert either.repair("one") == {"one.a": "created", "one.b": "unchanged"}
    assert either.list_databases() == sorted({*either.list_databases(), "one"} - {"two"})


def test_an_entry_gets_the_columns_and_options_of_the_files(either):
    either.create_table("db.t", SCHEMA, options={"bucket": -1, "snapshot.num-retained.max": 19})
    shown = entry(either, "db.t")
    owners = replace(shown, parameters={**shown.parameters, "owner.team": "lake"})
    either.metastore.register.replace_table(shown, owners)
    other = beside(either).table("db.t")
    other.alter(
        AddColumn("price", pa.float64()),
        RemoveOption("snapshot.num-retained.max"),
        SetOption("read.batch-size", "17"),
    )
    assert [column.name for column in entry(either, "db.t").columns] == ["k", "day"]
    assert either.repair("db.t") == {"db.t": "changed"}
    found = entry(either, "db.t")
    assert [(one.name, one.type) for one in found.columns][2:] == [("price", "double")]
    assert found.parameters["read.batch-size"] == "17"
    assert "snapshot.num-retained.max" not in found.parameters
    assert found.parameters["owner.team"] == "lake"
    assert either.repair("db.t") == {"db.t": "unchanged"}


def test_partitions_are_those_that_have_files(either):
    table = either.create_table(
        "db.t",
        SCHEMA,
        partition_keys=["day"],
        options={"metastore.partitioned-table": "true"},
    )
    table.write([{"k": 1, "day": "mon"}, {"k": 2, "day": "tue"}])
    assert partitions(either, "db.t") == [("mon",), ("tue",)]
    other = beside(either).table("db.t")
    other.write([{"k": 3, "day": "wed"}])
    other.drop_partitions([{"day": "mon"}])
    assert partitions(either, "db.t") == [("mon",), ("tue",)]
    assert either.repair("db") == {"db.t": "changed"}
    assert partitions(either, "db.t") == [("tue",), ("wed",)]
    assert either.repair("db") == {"db.t": "unchanged"}


def test_a_table_that_was_never_listed_shows_its_partitions(either):
    table = beside(either).create_table(
        "db.t",
        SCHEMA,
        partition_keys=["day"],
        options={"metastore.partitioned-table": "true"},
    )
    table.write([{"k": 1, "day": "mon"}])
    assert either.repair("db.t") == {"db.t": "created"}
    assert partitions(either, "db.t") == [("mon",)]


def test_what_is_another_engines_stays(either):
    either.create_database("db")
    either.create_table("db.a", SCHEMA)
    foreign = replace(
        entry(either, "db.a"),
        name="hive",
        input_format="org.apache.hadoop.mapred.TextInputFormat",
        output_format="org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
        origin=None,
    )
    assert either.metastore.register.create_table(foreign)
    files = beside(either)
    files.create_table("db.hive", SCHEMA)
    files.create_table("db.z", SCHEMA)
    with pytest.raises(AlreadyExistsError, match=r"'db.hive' is a table of .* not Paimon's"):
        either.repair()
    assert not entry(either, "db.hive").is_paimon
    assert either.list_tables("db") == ["a", "z"]  # the others were repaired


def test_the_files_of_another_entry_are_listed_once(either):
    either.create_table("db.t", SCHEMA)
    shown = entry(either, "db.t")
    kept = replace(shown, table_type=EXTERNAL, parameters={**shown.parameters, "EXTERNAL": "TRUE"})
    either.metastore.register.replace_table(shown, kept)
    either.rename_table("db.t", "db.renamed")  # an external table keeps its directory
    with pytest.raises(AlreadyExistsError, match=r"the files of table 'db.renamed'"):
        either.repair("db.t")
    assert either.list_tables("db") == ["renamed"]


def test_names_with_capitals_are_refused(either):
    beside(either).create_table("db.Orders", SCHEMA)
    beside(either).create_table("db.t", SCHEMA)
    with pytest.raises(InvalidInputError, match="'Orders' has capitals"):
        either.repair("db")
    assert either.list_tables("db") == ["t"]


@pytest.mark.parametrize(
    ("name", "says"), [("no", "no directory"), ("db.no", "has no files in"), ("no.t", "directory")]
)
def test_what_has_no_files_is_not_listed(either, name, says):
    either.create_database("db")
    with pytest.raises(NotFoundError, match=says):
        either.repair(name)
    assert either.list_tables("db") == []


def test_an_entry_without_files_is_named(either, tmp_path):
    table = either.create_table("db.t", SCHEMA)
    table.fileio.delete_dir(table.location)
    with pytest.raises(NotFoundError, match=r"'db.t' has no files in .*/db.db/t"):
        either.repair("db")


def test_the_procedure_answers_as_paimons(either):
    beside(either).create_table("db.t", SCHEMA)
    for arguments in ((), ("db",), ("db.t",)):
        assert call(either, "sys.repair", arguments).to_pylist() == [{"result": True}]
    assert either.list_tables("db") == ["t"]


def test_the_procedure_takes_several_names(either):
    files = beside(either)
    for name in ("one.a", "one.b", "two.c"):
        files.create_table(name, SCHEMA)
    call(either, "sys.repair", ("one.b, two",))
    assert (either.list_tables("one"), either.list_tables("two")) == (["b"], ["c"])
    with pytest.raises(InvalidInputError):
        call(either, "sys.repair", ("one.b,",))
    assert either.list_tables("one") == ["b"]  # an empty name is not the whole warehouse


def test_a_catalog_of_directories_has_nothing_to_repair(tmp_path):
    with pytest.raises(UnsupportedError, match="keeps no entries beside the files"):
        tidelake.open(tmp_path / "w").repair()
