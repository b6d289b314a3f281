"""Tables with a key whose files are sorted by other columns, as users meet them."""

import numpy as np
import pyarrow as pa
import pytest

import tidelake
from tidelake import AddColumn, DropColumn, RemoveOption, RenameColumn, SetOption, UpdateColumnType
from tidelake.errors import InvalidInputError, NotFoundError, UnsupportedError
from tidelake.store import rolling
from tidelake.store.lsm import clustered_picker

COLUMNS = {"k": "BIGINT", "a": "INT", "b": "INT", "city": "STRING"}
KEYED = {
    "bucket": "1",
    "pk-clustering-override": "true",
    "clustering.columns": "a",
    "deletion-vectors.enabled": "true",
}
FIRST = {"merge-engine": "first-row", "deletion-vectors.enabled": None}


@pytest.fixture
def catalog(tmp_path):
    return tidelake.open(str(tmp_path))


def created(catalog, name="db.t", **changed):
    options = {k: v for k, v in (KEYED | changed).items() if v is not None}
    return catalog.create_table(name, COLUMNS, primary_keys=["k"], options=options)


def rows(keys, seed=0):
    rng = np.random.default_rng(seed)
    count = len(keys)
    return pa.table(
        {
            "k": pa.array(keys, pa.int64()),
            "a": pa.array(rng.integers(0, 10_000, count), pa.int32()),
            "b": pa.array(rng.integers(0, 10_000, count), pa.int32()),
            "city": [f"city {n % 50}" for n in keys],
        }
    )


def by_key(table, **given):
    return table.to_arrow(**given).sort_by("k").to_pylist()


def file_paths(table):
    return sorted(table.system_table("files").to_arrow()["file_path"].to_pylist())


def test_a_filter_on_the_columns_skips_most_bytes(catalog, monkeypatch):
    monkeypatch.setattr(rolling, "WRITE_ROWS", 500)
    filled = {}
    for name, override in (("db.clustered", "true"), ("db.plain", None)):
        given = {"target-file-size": "24 kb", "pk-clustering-override": override}
        given |= {} if override else {"clustering.columns": None}
        filled[name] = created(catalog, name, **given)
        for start in (0, 5_000, 10_000):
            filled[name].write(rows(range(start, start + 10_000), seed=start))
        filled[name].compact(full=True)
    asked = "a >= 3000 AND a < 3100"
    plans = {name: table.plan(where=asked) for name, table in filled.items()}
    clustered, plain = (plans[name] for name in ("db.clustered", "db.plain"))
    assert 0 < clustered.bytes_read <= 0.2 * clustered.bytes_total
    assert plain.bytes_read == plain.bytes_total
    found = by_key(filled["db.clustered"], where=asked)
    assert found == by_key(filled["db.plain"], where=asked)
    assert found


@pytest.mark.parametrize("columns", ["a", "city"])
def test_one_full_compaction_gives_one_order_and_the_next_has_nothing_to_do(
    catalog, monkeypatch, columns
):
    monkeypatch.setattr(rolling, "WRITE_ROWS", 500)
    monkeypatch.setattr(clustered_picker, "SMALL_SHARE", 0.2)  # files of few rows miss their size
    given = {"target-file-size": "12 kb", "clustering.columns": columns}
    table = created(catalog, **given)
    table.write(rows(range(5_000)))
    table.compact(full=True)
    table.with_options({"write-only": "true"}).write(rows(range(2_500, 7_500), seed=1))
    table.compact(full=True)
    once = file_paths(table)
    assert len(once) > 3
    table.compact(full=True)
    assert file_paths(table) == once


@pytest.mark.parametrize("merged", ["true", "false"])
def test_rows_that_are_not_compacted_yet_are_merged_or_left_out_as_asked(catalog, merged):
    table = created(catalog, **{"deletion-vectors.merge-on-read": merged})
    table.write(rows(range(100)))
    expected = {row["k"]: row for row in by_key(table)}
    table.with_options({"write-only": "true"}).write(newer := rows(range(50, 150), seed=1))
    whole = expected | {row["k"]: row for row in newer.to_pylist()}
    seen = whole if merged == "true" else expected
    assert by_key(table) == [seen[k] for k in sorted(seen)]
    asked = "a < 5000"
    assert by_key(table, where=asked) == [seen[k] for k in sorted(seen) if seen[k]["a"] < 5000]
    table.compact()
    assert by_key(table) == [whole[k] for k in sorted(whole)]


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"clustering.columns": None}, "no columns to sort by: name them in 'clustering.columns'"),
        ({"deletion-vectors.enabled": None}, "set 'deletion-vectors.enabled' = 'true'"),
        ({"merge-engine": "partial-update"}, "take 'deduplicate' or 'first-row'"),
        ({"merge-engine": "aggregation"}, "take 'deduplicate' or 'first-row'"),
        ({"changelog-producer": "lookup"}, "take 'none' or 'input'"),
        (FIRST | {"changelog-producer": "lookup"}, "take 'none' or 'input'"),
        ({"sequence.field": "b"}, "leave that out: the row written last replaces others"),
        (
            {"record-level.expire-time": "1 d", "record-level.time-field": "a"},
            "with 'record-level.expire-time'",
        ),
        ({"clustering.incremental": "true"}, "with 'clustering.incremental'"),
        ({"bucket": "-2"}, "take a number of buckets, or -1"),
        ({"clustering.columns": "a,nope"}, "names nope, which is no column of it"),
    ],
)
def test_what_cannot_be_followed_is_refused_when_a_table_is_made(catalog, changed, says):
    with pytest.raises((InvalidInputError, UnsupportedError, NotFoundError), match=says):
        created(catalog, **changed)


def test_a_table_without_a_key_needs_no_override(catalog):
    with pytest.raises(InvalidInputError, match="but no primary key"):
        catalog.create_table("db.t", COLUMNS, options=KEYED | {"bucket": "-1"})


def test_first_row_needs_no_deletion_vectors_and_may_have_them(catalog):
    created(catalog, **FIRST)
    created(catalog, "db.marked", **{"merge-engine": "first-row"})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (SetOption("clustering.columns", "b"), "keeps its 'clustering.columns'"),
        (RemoveOption("clustering.columns"), "no columns to sort by"),
        (UpdateColumnType("a", "BIGINT"), "keeps its 'clustering.columns' and their types"),
        (RenameColumn("a", "c"), "those that order its files keep their names"),
        (DropColumn("a"), "'clustering.columns'|clustering.columns"),
        (SetOption("pk-clustering-override", "false"), "is fixed since the first write"),
        (RemoveOption("deletion-vectors.enabled"), "deletion-vectors.enabled"),
    ],
)
def test_what_orders_the_files_stays(catalog, change, says):
    table = created(catalog)
    table.write(rows(range(10)))
    with pytest.raises((InvalidInputError, UnsupportedError), match=says):
        table.alter(change)


def test_what_orders_the_files_cannot_be_set_for_one_use(catalog):
    table = created(catalog)
    for value in ("b", "a,b", None):
        with pytest.raises(InvalidInputError, match=r"Option 'clustering.columns' .* for one use"):
            table.with_options({"write-only": "true", "clustering.columns": value})
    assert table.with_options({"clustering.columns": " a"}).count() == 0


def test_other_columns_may_be_renamed_and_added(catalog):
    table = created(catalog)
    table.write(rows(range(10)))
    expected = [{**row, "n": None} for row in by_key(table)]
    table.alter(RenameColumn("b", "c"), AddColumn("n", "INT"))
    table = catalog.table("db.t")
    table.compact(full=True)
    expected = [
        {"c" if name == "b" else name: value for name, value in row.items()} for row in expected
    ]
    assert by_key(table) == expected
    assert table.fsck().problems == ()


def test_an_order_of_its_own_is_refused(catalog):
    with pytest.raises(UnsupportedError, match="cannot be clustered"):
        created(catalog).compact(order="zorder", by=["b"])


def test_diff_blame_gets_and_a_local_query_find_its_rows(catalog):
    table = created(catalog, bucket="2")
    table.write(rows(range(100)))
    before = table.latest_snapshot_id
    old = {row["k"]: row for row in by_key(table)}
    table.write(rows(range(40, 60), seed=5))
    table.delete("k = 7")
    expected = {row["k"]: row for row in by_key(table)}
    assert len(expected) == 99
    changes = table.diff(before).to_arrow().to_pylist()
    assert {row["k"] for row in changes} == {7, *range(40, 60)}
    told = {row["k"]: row for row in changes}
    assert (told[7]["change"], told[7]["before"]["a"]) == ("removed", old[7]["a"])
    assert (told[50]["before"]["a"], told[50]["after"]["a"]) == (old[50]["a"], expected[50]["a"])
    assert table.get(50) == expected[50]
    assert table.get(7) is None
    with table.local_query() as query:
        assert [query.get(k) for k in (3, 7, 45)] == [expected[3], None, expected[45]]
    assert len(table.blame(50)) == 2
