"""Names of targets as Paimon's, patterns, shards, and tables that must not meet."""

import pytest

from tidelake.cdc.routing.name_filter import NameFilter
from tidelake.cdc.routing.routing import Mode, Routing, TableRoute
from tidelake.cdc.routing.table_names import TableNames
from tidelake.cdc.source.source_table import SourceName
from tidelake.errors import InvalidInputError


def table(text):
    """``"db.t"`` of MySQL, ``"db.schema.t"`` of PostgreSQL."""
    database, *rest, name = text.split(".")
    return SourceName(database, rest[0] if rest else "", name)


# TableNameConverterTest.testConvertTableName
@pytest.mark.parametrize(
    ("case_sensitive", "source", "target"),
    [
        (True, "mapped_SRC", "mapped_TGT"),
        (True, "unmapped_src", "pre_unmapped_src_pos"),
        (True, "Unmapped", "pre_Unmapped_pos"),
        (False, "mapped_src", "mapped_tgt"),
        (False, "unmapped_src", "pre_unmapped_src_pos"),
        (False, "Unmapped", "pre_unmapped_pos"),
    ],
)
def test_a_mapping_comes_before_prefix_and_suffix(case_sensitive, source, target):
    names = TableNames(
        case_sensitive=case_sensitive, prefix="pre_", suffix="_pos",
        mapping={"mapped_src": "mapped_TGT"},
    )  # fmt: skip
    assert names.target(SourceName("", "", source)) == target


# TableNameConverterTest.testConvertTableNameByDBPrefix_Suffix
@pytest.mark.parametrize(
    ("database", "target"),
    [
        ("db_with_prefix", "db_pref_table_name_suf"),
        ("db_with_suffix", "pre_table_name_db_suff"),
        ("db_with_prefix_suffix", "db_pref_table_name_db_suff"),
        ("DB_With_Prefix_Suffix", "db_pref_table_name_db_suff"),
        ("db_without_prefix_suffix", "pre_table_name_suf"),
    ],
)
def test_a_databases_own_prefix_comes_before_the_general_one(database, target):
    names = TableNames(
        case_sensitive=False, prefix="pre_", suffix="_suf",
        db_prefixes={"db_with_prefix": "db_pref_", "DB_with_prefix_suffix": "db_pref_"},
        db_suffixes={"db_with_suffix": "_db_suff", "db_with_prefix_suffix": "_db_suff"},
    )  # fmt: skip
    assert names.target(SourceName(database, "", "table_name")) == target


def test_shards_that_are_not_merged_have_their_databases_name():
    names = TableNames(merge_shards=False, mapping={"b_t": "mine"})
    assert names.target(table("a.t")) == "a_t"
    assert names.target(table("b.t")) == "mine"
    assert names.target(table("shop.eu.t")) == "eu_t"


# SyncDatabaseActionBaseTest
def test_excluding_wins_and_a_pattern_matches_a_whole_name():
    wanted = NameFilter(including_tables="white_tbl|a.*", excluding_tables="black_tbl|ab")
    taken = [wanted.takes(table(f"any_db.{t}")) for t in ("white_tbl", "black_tbl", "ab", "abc")]
    assert taken == [True, False, False, True]
    assert not wanted.takes(table("db.white_tbl2"))
    dbs = NameFilter(including_dbs="white_db", excluding_dbs="black_db", excluding_tables="black")
    taken = [
        dbs.takes(table(t)) for t in ("any_db.t", "white_db.t", "black_db.t", "white_db.black")
    ]
    assert taken == [False, True, False, False]
    assert NameFilter(including_dbs="eu").takes(table("shop.eu.t"))
    assert dbs.takes(SourceName("", "", "t"))


def test_a_pattern_that_is_none_is_refused_by_its_option():
    with pytest.raises(InvalidInputError, match=r"'\(a' of excluding_tables is no regular") as no:
        NameFilter(excluding_tables="(a")
    assert no.value.context["option"] == "excluding_tables"


def test_tables_of_migrations_are_left_out_where_there_is_their_table():
    names = [table(f"d.{t}") for t in ("x", "_x_gho", "_x_ghc", "_x_del", "_x_new", "_x_old",
                                       "_y_new", "x_new")]  # fmt: skip
    assert [n.table for n in NameFilter().taken(names)] == ["x", "_y_new", "x_new"]
    wanted = NameFilter(including_tables="x|_x_new")
    assert [n.table for n in wanted.taken(names)] == ["x", "_x_new"]


def test_shards_of_one_name_are_merged():
    routing = Routing("ods")
    names = [table(t) for t in ("s1.orders", "s1.items", "s2.orders")]
    assert routing.routes(names) == (
        TableRoute("ods.orders", (names[0], names[2])),
        TableRoute("ods.items", (names[1],)),
    )
    apart = Routing("ods", names=TableNames(merge_shards=False)).routes(names)
    assert [route.target for route in apart] == ["ods.s1_orders", "ods.s1_items", "ods.s2_orders"]


def test_shards_of_names_in_other_case_are_merged_where_case_does_not_count():
    names = [table("s1.Orders"), table("s2.orders")]
    assert len(Routing("ods").routes(names)) == 2
    folded = Routing("ods", names=TableNames(case_sensitive=False)).routes(names)
    assert folded == (TableRoute("ods.orders", tuple(names)),)


def test_one_table_takes_all():
    names = [table("s1.a"), table("s1.b"), table("s2.c")]
    assert Routing("ods", table="all").routes(names) == (TableRoute("ods.all", tuple(names)),)


def test_a_mapping_may_bring_tables_together():
    routing = Routing("ods", names=TableNames(mapping={"a": "all", "b": "all"}))
    names = [table("s.a"), table("s.b"), table("s.c")]
    assert [len(route.sources) for route in routing.routes(names)] == [2, 1]


@pytest.mark.parametrize(
    ("names", "sources"),
    [
        (TableNames(mapping={"a": "b"}), ["s.a", "s.b"]),
        (TableNames(prefix="x_", mapping={"a": "x_b"}), ["s.a", "s.b"]),
        (TableNames(case_sensitive=False), ["s.A", "s.a"]),
        (TableNames(merge_shards=False), ["a_b.c", "a.b_c"]),
        (TableNames(db_prefixes={"s": "a_"}), ["s.b", "r.a_b"]),
    ],
)
def test_two_other_tables_at_one_target_are_refused_by_name(names, sources):
    with pytest.raises(InvalidInputError) as refused:
        Routing("ods", names=names).routes([table(t) for t in sources])
    assert refused.value.kind == "cdc_target_collision"
    assert f"'{sources[0]}' and '{sources[1]}' both go into 'ods." in str(refused.value)


def test_partition_keys_may_differ_by_table():
    routing = Routing("ods", partition_keys=("dt",), partition_keys_of={"a": ("y", "m")})
    assert routing.partition_keys_for(table("s.a")) == ("y", "m")
    assert routing.partition_keys_for(table("s.b")) == ("dt",)


def test_the_mode_says_whether_new_tables_join():
    assert Routing("ods", mode=Mode("combined")).takes_new_tables
    assert not Routing("ods", mode=Mode("divided")).takes_new_tables
