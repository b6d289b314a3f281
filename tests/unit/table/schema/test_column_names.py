"""Column names that Paimon takes: slashes, dots, spaces, quotes, letters beyond ASCII."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidelake import col

NAMES = [
    "a",
    "a.b",
    "a.b.c",
    "a/b",
    "a\\b",
    "../up",
    "a b",
    'a"b',
    "a'b",
    "a`b",
    "Größe",
    "表",
    "a,b",
    "a=b",
    "%2F",
    "{a}",
    "$x",
    "#",
    "SELECT",
]


def row(number):
    return {name: f"{name} {number}" for name in NAMES}


@pytest.mark.parametrize("key", NAMES)
def test_a_name_may_be_a_key_a_partition_and_a_value(catalog, key):
    others = [name for name in NAMES if name != key]
    partition = others[0]
    table = catalog.create_table(
        "db.t",
        pa.schema([(name, pa.string()) for name in NAMES]),
        primary_keys=[partition, key],
        partition_keys=[partition],
        options={"bucket": 2, "bucket-key": key} if "," not in key else {"bucket": 2},
    )
    table.write([row(1), row(2), row(3)])
    table.write([row(2) | {others[1]: "changed"}])
    table.delete(col(key) == row(3)[key])
    expected = [row(1), row(2) | {others[1]: "changed"}]
    again = catalog.table("db.t")
    for _ in range(2):
        assert sorted(again.to_arrow().to_pylist(), key=lambda r: r[key]) == expected
        for name in NAMES:
            assert again.to_arrow(columns=[name]).num_rows == 2
            quoted = "`" + name.replace("`", "``") + "`"
            assert again.count(where=f"{quoted} = '{row(1)[name].replace(chr(39), chr(39) * 2)}'")
        again.compact(full=True)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_may_partition_an_append_table(catalog, tmp_path, name):
    value = "v" if name != "v" else "w"
    table = catalog.create_table(
        "db.t", pa.schema({name: pa.string(), value: pa.int32()}), partition_keys=[name]
    )
    table.write([{name: "x/y", value: 1}, {name: "z", value: 2}])
    table.write([{name: "z", value: 3}], mode="overwrite", partition={name: "z"})
    rows = table.to_arrow(columns=[value], where=col(name) == "z").to_pylist()
    assert rows == [{value: 3}]
    assert table.count() == 2
    directories = [p.name for p in (tmp_path / "warehouse/db.db/t").iterdir() if "=" in p.name]
    assert len(directories) == 2  # escaped: no directory below a directory, none outside


def test_fine_timestamps_of_odd_names_are_read(catalog):
    """INT96 columns are read a second time, in microseconds, by name."""
    fields = [("k", pa.int64()), ("a", pa.timestamp("ns")), ("a.b", pa.string())]
    fields += [("a/b", pa.timestamp("ns")), ("k.x", pa.timestamp("ns"))]
    table = catalog.create_table("db.t", pa.schema(fields))
    rows = [{"k": 1, "a": None, "a.b": "x", "a/b": None, "k.x": None}]
    table.write(rows)
    assert table.to_arrow().to_pylist() == rows
    assert table.to_arrow(columns=["a"]).to_pylist() == [{"a": None}]
