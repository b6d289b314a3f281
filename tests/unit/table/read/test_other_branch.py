"""Partitions that a batch read takes from another branch."""

from __future__ import annotations

import random
from dataclasses import replace

import pyarrow as pa
import pytest

import tidelake
from tidelake import InvalidInputError, NotFoundError, UnsupportedError
from tidelake.metadata import SchemaLog
from tidelake.metadata.log.consumer import ConsumerLog
from tidelake.sql import SqlSession, parse
from tidelake.sql.execution.kernel_query import kernel_answer
from tidelake.sql.execution.max_pt import replace_max_pt_in_text
from tidelake.telemetry import Env, ManualClock

COLUMNS = pa.schema({"dt": pa.string(), "k": pa.int64(), "v": pa.string()})
FALLBACK, PRIMARY = "scan.fallback-branch", "scan.primary-branch"


def rows(partition, *keys, v) -> list[dict]:
    return [{"dt": partition, "k": k, "v": v} for k in keys]


def made(catalog, name="db.t", keys=("dt", "k"), options=None):
    return catalog.create_table(
        name, COLUMNS, primary_keys=list(keys), partition_keys=["dt"], options=options or {}
    )


@pytest.fixture
def catalog(tmp_path):
    """A second passes whenever somebody looks at the clock."""
    env = replace(Env.seeded(9), clock=ManualClock(tick_ms=1_000))
    return tidelake.open(tmp_path / "warehouse", env=env)


@pytest.fixture
def table(catalog):
    """Main has partitions a and b, branch ``live`` has b and c."""
    made(catalog, options={"bucket": 2}).branches.create("live")
    table = catalog.table("db.t")
    table.write([*rows("a", 1, v="main"), *rows("b", 2, v="main")])
    table.branch("live").write([*rows("b", 3, v="live"), *rows("c", 4, 5, v="live")])
    return table


def using(table, key=FALLBACK, branch="live"):
    return table.with_options({key: branch})


def shown(table, **scan) -> set[tuple]:
    found = table.to_arrow(**scan)
    assert table.count(**scan) == found.num_rows
    assert table.to_batches(**scan).read_all().sort_by("k").equals(found.sort_by("k"))
    return {tuple(row.values()) for row in found.to_pylist()}


def test_partitions_that_main_lacks_are_the_branchs(table):
    b_and_c = {("b", 2, "main"), ("c", 4, "live"), ("c", 5, "live")}
    assert shown(using(table)) == {("a", 1, "main"), *b_and_c}
    assert shown(using(table), where="dt >= 'b'") == b_and_c
    # main has partition b, so no row of it comes from the branch
    assert shown(using(table), where="k = 3") == set()
    assert shown(using(table), where="v = 'live' AND k > 4") == {("c", 5, "live")}
    assert shown(table) == {("a", 1, "main"), ("b", 2, "main")}


def test_partitions_of_a_primary_branch_come_before_the_tables_own(table):
    live = {("b", 3, "live"), ("c", 4, "live"), ("c", 5, "live")}
    assert shown(using(table, PRIMARY)) == {("a", 1, "main"), *live}
    assert shown(using(table, PRIMARY), where="k = 2") == set()


def test_limits_columns_frames_and_explain_are_of_both(table):
    both = using(table)
    assert [both.to_arrow(limit=n).num_rows for n in (0, 1, 3, 9)] == [0, 1, 3, 4]
    assert both.count(limit=3) == 3
    assert sorted(both.to_arrow(columns=["k"])["k"].to_pylist()) == [1, 2, 4, 5]
    assert sorted(both.to_pandas()["k"]) == [1, 2, 4, 5]
    assert ("other branch", "db.t$branch_live") in [
        (name, text.split(",")[0]) for name, text in both.explain().lines()
    ]
    assert repr(both.scan()).startswith(f"TableScan of {both.paths.location}: 3 splits")


def test_sql_reads_both(catalog, table):
    table.set_options({FALLBACK: "live"})
    session = SqlSession(catalog)

    def answer(text):
        (query,) = parse(text)
        return kernel_answer(query, session, conf={}).read_all().to_pylist()

    assert answer("SELECT k FROM db.t WHERE k > 4") == [{"k": 5}]
    shown = "SELECT * FROM db.t WHERE dt = sys.max_pt('db.t')"
    assert replace_max_pt_in_text(shown, session) == "SELECT * FROM db.t WHERE dt = 'c'"


def test_a_table_without_partitions_reads_the_branch_as_long_as_it_is_empty(catalog):
    table = catalog.create_table("db.t", COLUMNS, primary_keys=["k"], options={"bucket": 1})
    table.branches.create("live")
    table.branch("live").write(rows("x", 1, v="live"))
    assert shown(using(table)) == {("x", 1, "live")}
    table.write(rows("y", 2, v="main"))
    assert shown(using(table)) == {("y", 2, "main")}
    table.delete("k = 2")
    assert shown(using(table)) == set()  # its file, though empty of rows, is there
    table.compact(full=True)
    assert shown(using(table)) == {("x", 1, "live")}


def test_a_moment_is_one_of_main_and_the_branch_is_read_as_it_was_then(catalog):
    made(catalog, options={"bucket": 1}).branches.create("live")
    table = catalog.table("db.t")
    table.write(rows("a", 1, v="main"))  # snapshot 1: the branch has none
    table.branch("live").write(rows("b", 2, v="live"))
    table.write(rows("a", 3, v="main"))
    table.branch("live").write(rows("c", 4, v="live"))
    both = using(table)
    assert {k for _, k, _ in shown(both)} == {1, 2, 3, 4}
    assert {k for _, k, _ in shown(both, snapshot_id=2)} == {1, 2, 3}
    assert {k for _, k, _ in shown(both.with_options({"scan.snapshot-id": 2}))} == {1, 2, 3}
    table.tags.create("t", snapshot_id=2)
    with pytest.raises(NotFoundError, match=r"'db\.t\$branch_live' has no tag 't'"):
        both.to_arrow(tag="t")
    table.branch("live").tags.create("t", snapshot_id=2)
    assert {k for _, k, _ in shown(both, tag="t")} == {1, 2, 3, 4}


def test_a_branch_that_began_after_the_moment_gives_nothing(catalog):
    made(catalog, options={"bucket": 1}).branches.create("live")
    table = catalog.table("db.t")
    table.write(rows("a", 1, v="main"))
    table.branch("live").write(rows("b", 2, v="live"))
    assert shown(using(table), snapshot_id=1) == {("a", 1, "main")}


def test_the_branchs_keys_engine_and_options_are_its_own(catalog):
    """As in Paimon's own example: a batch table, and a branch that a stream merges."""
    made(catalog, keys=()).branches.create("live")
    table = catalog.table("db.t")
    live = table.branch("live")
    keyed = {"bucket": "3", "merge-engine": "first-row"}
    keys = ("dt", "k")
    schema = replace(live.table_schema, id=1, primary_keys=keys, options=keyed)
    assert SchemaLog(live.fileio, live.paths).create(schema)  # Paimon alters an empty branch so
    table.write(rows("a", 1, 1, v="main"))
    live = table.branch("live")
    live.write(rows("b", 1, 2, v="first"))
    live.write(rows("b", 2, 3, v="second"))
    found = using(table).to_arrow()
    assert found.schema == table.schema
    at = sorted((row["dt"], row["k"], row["v"]) for row in found.to_pylist())
    merged = [("b", 1, "first"), ("b", 2, "first"), ("b", 3, "second")]
    assert at == [("a", 1, "main"), ("a", 1, "main"), *merged]
    assert using(table).with_options({"bucket": "-1"}).count() == 5


def test_columns_that_differ_are_refused_and_nullability_is_not(catalog, table):
    live = table.branch("live")
    live.add_column("extra", "INT")
    with pytest.raises(InvalidInputError, match=r"columns differ: dt STRING, k BIGINT, v STRING"):
        using(table).to_arrow()
    table = catalog.table("db.t")
    table.add_column("extra", "INT")
    assert using(catalog.table("db.t")).count() == 4


def test_what_reads_one_branch_alone_is_refused_and_says_what_to_do(table):
    both = using(table)
    for read in (
        lambda: both.get({"dt": "a", "k": 1}),
        lambda: both.local_query().refresh(),
        lambda: both.system_table("audit_log").to_arrow(),
        lambda: both.system_table("ro").count(),
    ):
        with pytest.raises(UnsupportedError, match=r"set the option to '' for this use"):
            read()
    alone = both.with_options({FALLBACK: ""})
    assert alone.get({"dt": "a", "k": 1}) == {"dt": "a", "k": 1, "v": "main"}
    assert alone.count() == 2


def test_changes_and_writes_are_of_the_table_alone(table):
    both = using(table)
    assert sorted(both.changes(0)["k"].to_pylist()) == [1, 2]
    both.delete("k = 4")
    both.write(rows("c", 9, v="main"))
    assert shown(both, where="dt = 'c'") == {("c", 9, "main")}
    assert shown(table.branch("live"), where="dt = 'c'") == {("c", 4, "live"), ("c", 5, "live")}


def test_options_name_branches_that_are_there_and_one_at_most(catalog, table):
    with pytest.raises(NotFoundError, match=r"no branch 'lvie'.*live"):
        table.set_options({FALLBACK: "lvie"})
    with pytest.raises(NotFoundError, match="no branch"):
        using(table, branch="lvie").to_arrow()
    with pytest.raises(InvalidInputError, match="are both set"):
        table.set_options({FALLBACK: "live", PRIMARY: "live"})
    with pytest.raises(InvalidInputError, match="are both set"):
        using(table).with_options({PRIMARY: "live"}).to_arrow()
    for key in (FALLBACK, PRIMARY):
        with pytest.raises(InvalidInputError, match="is new and has no branch 'live'"):
            made(catalog, "db.new", options={key: "live"})
    for key in (FALLBACK, PRIMARY):
        table.set_options({key: "live"})
        with pytest.raises(InvalidInputError, match=f"'{key}'"):
            table.branches.delete("live")
        table.reset_options([key])
    # the branch has the option too if it was made later; it is not read beside itself
    table.set_options({FALLBACK: "live"})
    table.branches.create("copy", snapshot_id=1)
    assert shown(table.branch("copy")) == {("a", 1, "main"), ("b", 2, "main")}


@pytest.mark.parametrize("seed", range(6))
def test_drawn_tables_read_as_two_dictionaries(catalog, seed):
    rng = random.Random(seed)
    made(catalog, options={"bucket": 1}).branches.create("live")
    table = catalog.table("db.t")
    state = {"main": {}, "live": {}}
    for number in range(12):
        name = rng.choice(["main", "live"])
        branch, held = table.branch(name), state[name]
        if rng.random() < 0.7:
            one = {"dt": rng.choice("abc"), "k": rng.randrange(4), "v": f"{name}{number}"}
            branch.write([one])
            held[one["dt"], one["k"]] = one["v"]
        else:  # a partition goes as a whole, so that no file of it is left
            partition = rng.choice("abc")
            branch.overwrite(table.schema.empty_table(), partition={"dt": partition})
            for key in [key for key in held if key[0] == partition]:
                del held[key]
        for key, (first, second) in {
            FALLBACK: ("main", "live"),
            PRIMARY: ("live", "main"),
        }.items():
            has = {dt for dt, _ in state[first]}
            wanted = {**state[first]}
            wanted |= {at: v for at, v in state[second].items() if at[0] not in has}
            where = rng.choice([None, "k > 1", "dt <> 'a'", "dt = 'b' AND k < 2"])
            kept = {
                None: lambda _: True,
                "k > 1": lambda at: at[1] > 1,
                "dt <> 'a'": lambda at: at[0] != "a",
                "dt = 'b' AND k < 2": lambda at: at[0] == "b" and at[1] < 2,
            }[where]
            found = shown(using(table, key), where=where)
            assert found == {(*at, v) for at, v in wanted.items() if kept(at)}


def test_a_read_holds_both_snapshots_until_it_closes(table):
    def held():
        return [
            len(ConsumerLog(branch.fileio, branch.paths).next_ids())
            for branch in (table, table.branch("live"))
        ]

    with using(table).with_options({"read.hold": "always"}).scan() as scan:
        assert (len(scan), held()) == (4, [1, 1])
    assert held() == [0, 0]


def test_another_catalog_sees_the_option(tmp_path):
    catalog = tidelake.open(str(tmp_path))
    table = made(catalog, options={"bucket": 1})
    table.branches.create("live")
    table.branch("live").write(rows("c", 4, v="live"))
    table.set_options({FALLBACK: "live"})
    assert shown(tidelake.open(str(tmp_path)).table("db.t")) == {("c", 4, "live")}
