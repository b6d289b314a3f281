"""Targets that a job makes, shards that are merged, and tables that are there already."""

from dataclasses import replace

import pytest

import tidelake
from tidelake.cdc.evolution.existing_table import check_fits, misfits, option_changes
from tidelake.cdc.evolution.merged_table import merged_table
from tidelake.cdc.evolution.new_table import TargetOptions, new_table
from tidelake.cdc.source.source_table import OldRows, SourceColumn, SourceName, SourceTable
from tidelake.errors import InvalidInputError
from tidelake.types import DataField, TableSchema
from tidelake.types.data_type import parse_type_text
from tidelake.types.schema_change import SetOption

ORDER = tuple(DataField(i, n, parse_type_text("BIGINT")) for i, n in enumerate(("_l", "_s")))


def field(name, text, comment=None):
    return DataField(0, name, parse_type_text(text), comment)


def source(name="s.t", keys=("id",), comment=None, **types):
    database, table = name.split(".")
    columns = tuple(
        SourceColumn(n, t, None if t == "?" else parse_type_text(t), comment=f"of {n}")
        for n, t in types.items()
    )
    return SourceTable(SourceName(database, "", table), columns, keys, comment=comment)


def shown(fields):
    return {f.name: str(f.type) for f in fields}


BASE = {"id": "INT NOT NULL", "a": "INT NOT NULL", "b": "STRING"}
IGNORES = {"ignore-delete": "true"}
PLAIN = source(comment="the table", **BASE)


def made(tables=(PLAIN,), **options):
    merged = merged_table(tables, case_sensitive=options.get("case_sensitive", True))
    return new_table("ods.t", merged, TargetOptions(**options))


def test_a_target_has_the_sources_columns_and_those_of_the_job():
    table = made(added=(field("y", "INT"), field("op_ts", "DATE NOT NULL")), order=ORDER,
                 table_conf={"bucket": "2"})  # fmt: skip
    assert shown(table.fields) == {
        **BASE, "y": "INT", "op_ts": "DATE NOT NULL", "_l": "BIGINT", "_s": "BIGINT",
    }  # fmt: skip
    assert [f.id for f in table.fields] == [0, 1, 2, 3, 4, 5, 6]
    assert table.fields[1].description == "of a"
    assert (table.primary_keys, table.partition_keys) == (("id",), ())
    assert table.options == {"bucket": "2", "sequence.field": "_l,_s"}
    assert table.comment == "the table"


@pytest.mark.parametrize(
    ("conf", "said"),
    [
        ({"merge-engine": "first-row"}, "takes no deletes"),
        ({"merge-engine": "aggregation"}, "takes no deletes"),
        ({"merge-engine": "partial-update"}, "takes no deletes"),
        ({"bucket": "-2"}, "cannot be found before the next compaction"),
    ],
)
def test_a_target_that_cannot_take_what_its_source_sends_is_refused(conf, said):
    keys = replace(PLAIN, old_rows=OldRows.KEYS)
    with pytest.raises(InvalidInputError, match=said) as caught:
        made((keys,), table_conf=conf)
    assert caught.value.kind == "cdc_target_engine"
    there = TableSchema(0, made().fields, 3, (), ("id",), conf)
    assert said in "; ".join(misfits(there, made((keys,))))


@pytest.mark.parametrize(
    ("conf", "said"),
    [
        ({"merge-engine": "first-row", "ignore-delete": "true"}, "engine is 'first-row'"),
        ({"merge-engine": "first-row", "first-row.ignore-delete": "true"}, "'first-row'"),
        (
            {
                "merge-engine": "partial-update",
                "partial-update.remove-record-on-delete": "true",
            },
            "'partial-update'",
        ),
        ({"ignore-delete": "true"}, "will keep deleted rows"),
        ({"bucket": "-2"}, "seen after a compaction"),
    ],
)
def test_a_note_says_how_a_target_differs_from_its_source(conf, said):
    (note,) = made(table_conf=conf).notes
    assert said in note
    there = TableSchema(0, made().fields, 3, (), ("id",), conf)
    assert not [*misfits(there, made())]


def test_a_target_can_be_made(tmp_path):
    table = made(order=ORDER, partition_keys=("b",), primary_keys=("id", "b"),
                 table_conf={"bucket": "2", "sink.parallelism": "4"})  # fmt: skip
    catalog = tidelake.open(str(tmp_path))
    schema = catalog.create_table(
        table.identifier, table.fields, primary_keys=table.primary_keys,
        partition_keys=table.partition_keys, options=table.options, comment=table.comment,
    ).table_schema  # fmt: skip
    assert shown(schema.fields)["b"] == "STRING NOT NULL"
    assert [f.description for f in schema.fields][:2] == ["of id", "of a"]
    assert not list(misfits(schema, table))


@pytest.mark.parametrize(
    ("options", "sequence"),
    [
        ({"order": ()}, None),
        ({"order": ORDER, "table_conf": {"sequence.field": "a"}}, "a"),
        ({"order": ORDER, "table_conf": {"merge-engine": "first-row", **IGNORES}}, None),
        ({"order": ORDER, "keys_from_source": False}, None),
        ({"order": ORDER, "table_conf": {"merge-engine": "partial-update", **IGNORES}}, "_l,_s"),
    ],
)
def test_order_columns_order_rows_unless_something_else_does(options, sequence):
    assert made(**options).options.get("sequence.field") == sequence


def test_keys_that_are_asked_for_come_before_the_sources():
    assert made(primary_keys=("a", "id")).primary_keys == ("a", "id")
    assert made(primary_keys=("y",), added=(field("y", "INT"),)).primary_keys == ("y",)
    assert made(keys_from_source=False).primary_keys == ()
    assert made([source(keys=(), **BASE)], requires_key=False).primary_keys == ()
    # MySqlSyncTableActionITCase.testSpecifyKeysWithCaseInsensitive
    folded = made([source(keys=(), id1="INT", part="INT")], case_sensitive=False,
                  primary_keys=("ID1", "PART"), partition_keys=("PART",))  # fmt: skip
    assert (folded.primary_keys, folded.partition_keys) == (("id1", "part"), ("part",))


def test_a_job_of_a_database_passes_over_keys_that_a_table_lacks():
    table = made(primary_keys=("x",), partition_keys=("dt",), is_strict=False)
    assert (table.primary_keys, table.partition_keys) == (("id",), ())
    assert table.notes == (
        "Table 'ods.t' has no column 'x' of the primary keys: the source's are taken.",
        "Table 'ods.t' has no column 'dt' of the partition keys: it is not partitioned.",
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"primary_keys": ("pk",)}, "no column 'pk' of the primary keys: name some of id, a, b"),
        ({"partition_keys": ("dt",)}, "no column 'dt' of the partition keys"),
        ({"added": (field("a", "INT"),)}, "would have column 'a' twice"),
        ({"partition_keys": ("id",)}, "no column besides the partition keys"),
        ({"partition_keys": ("b",), "order": ORDER}, "lacks the partition key 'b'"),
        ({"tables": [source(keys=(), **BASE)]}, "its source (s.t) has none"),
        ({"tables": [source(**BASE, x="?")]}, "no counterpart: 'x' (?)"),
        ({"tables": [source(**BASE, A="INT")], "case_sensitive": False}, "several columns 'a'"),
    ],
)
def test_a_wrong_definition_is_refused(options, said):
    with pytest.raises(InvalidInputError) as refused:
        made(**options)
    assert said in str(refused.value)


def test_a_number_of_buckets_is_for_tables_with_a_key():
    bare = [source(keys=(), **BASE)]
    conf = {"bucket": "4", "file.format": "orc"}
    assert made(table_conf=conf).options["bucket"] == "4"
    found = made(bare, requires_key=False, table_conf=conf)
    assert found.options == {"file.format": "orc"}
    assert found.notes == ("Table 'ods.t' has no primary key: 'bucket' 4 is not for it.",)
    by_key = {**conf, "bucket-key": "a"}
    assert made(bare, requires_key=False, table_conf=by_key).options == by_key
    with pytest.raises(InvalidInputError, match="--keyless append"):
        made(bare)


def test_a_key_may_change_its_partition_where_nothing_orders_rows():
    assert made(partition_keys=("b",)).partition_keys == ("b",)


DAY = {"added": (field("day", "INT"),), "computed_from": {"day": frozenset({"a"})}}


@pytest.mark.parametrize("old_rows", [OldRows.KEYS, OldRows.NOTHING])
@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({**DAY, "partition_keys": ("day",), "primary_keys": ("id", "day")}, "day"),
        ({"primary_keys": ("id", "a")}, "a"),
    ],
)
def test_a_key_whose_old_value_is_not_sent_is_refused(old_rows, options, key):
    statement = 'ALTER TABLE "s"."t" REPLICA IDENTITY FULL'
    with pytest.raises(InvalidInputError, match=statement) as refused:
        made([replace(PLAIN, old_rows=old_rows)], **options)
    assert (refused.value.kind, refused.value.context["column"]) == ("cdc_key_unsent", key)
    assert made(**options).primary_keys == options["primary_keys"]
    # of messages each may have it
    some = made([replace(PLAIN, old_rows=OldRows.SOME)], **options)
    assert some.primary_keys == options["primary_keys"]


def test_keys_that_depend_on_the_sources_key_alone_need_no_old_rows():
    keyed = replace(PLAIN, old_rows=OldRows.KEYS)
    options = {
        "added": (field("day", "INT"), field("one", "INT"), field("table_name", "STRING")),
        "computed_from": {"day": frozenset({"id"}), "one": frozenset()},
        "primary_keys": ("id", "day", "one", "table_name"),
        "partition_keys": ("day",),
    }
    assert made([keyed], **options).notes == ()
    # a partition outside of the key is found by the key
    assert made([keyed], **DAY, partition_keys=("day",)).notes == ()
    shards = [keyed, source("r.t", **BASE)]
    assert merged_table(shards).sent == {"id"}


def test_shards_are_merged_column_by_column():
    one = source("s1.t", id="INT NOT NULL", a="INT NOT NULL", b="VARCHAR(5)", c="DATE NOT NULL")
    two = source("s2.t", id="BIGINT NOT NULL", b="VARCHAR(3)", a="INT", d="INT NOT NULL")
    merged = merged_table([one, two])
    assert merged_table([two, one]).fields[2].type == merged.fields[1].type
    assert shown(merged.fields) == {
        "id": "BIGINT NOT NULL", "a": "INT", "b": "VARCHAR(5)", "c": "DATE", "d": "INT",
    }  # fmt: skip
    assert merged.keys == ("id",)
    assert merged.name == "s1.t, s2.t"
    assert merged_table([one, source("s2.t", ("a",), **BASE)]).keys == ()


def test_shards_that_do_not_fit_are_refused_by_name():
    tables = [source("s1.t", **BASE), source("s2.t", **BASE), source("s3.t", id="INT", a="DATE")]
    with pytest.raises(InvalidInputError) as refused:
        merged_table(tables)
    assert "'a' is INT NOT NULL in table 's1.t' and DATE in 's3.t'" in str(refused.value)


def existing(keys=("id",), partitions=(), options=None, **types):
    fields = tuple(DataField(i, n, parse_type_text(t)) for i, (n, t) in enumerate(types.items()))
    return TableSchema(0, fields, len(fields), tuple(partitions), tuple(keys), options or {})


def test_a_table_may_have_more_columns_and_other_types_that_convert():
    table = existing(id="BIGINT NOT NULL", a="SMALLINT", b="VARCHAR(9)", more="DATE")
    assert not list(misfits(table, made()))


@pytest.mark.parametrize(
    ("table", "options", "said"),
    [
        (existing(id="INT NOT NULL", a="INT"), {}, "it has no column 'b' of type STRING"),
        (existing(id="INT NOT NULL", a="DATE", b="STRING"), {},
         "its column 'a' is DATE, the source's INT NOT NULL"),
        (existing(("a",), id="INT", a="INT NOT NULL", b="STRING"), {},
         "its primary key (a) would be (id)"),
        (existing(**BASE), {"partition_keys": ("a",), "primary_keys": ("id", "a")},
         "its partition keys () would be (a)"),
        (existing(**BASE, x="INT NOT NULL"), {}, "'x' is NOT NULL, and the source has none"),
        (existing(("id", "x"), ("x",), **BASE, x="INT"), {"primary_keys": ("id",)},
         "its partition key 'x' is no column of the source"),
        (existing(**BASE, _l="BIGINT", _s="BIGINT"), {"order": ORDER},
         "its 'sequence.field' is not set, not _l,_s"),
    ],
)  # fmt: skip
def test_a_table_that_does_not_fit_is_refused_with_all_reasons(table, options, said):
    wanted = made(**options)
    assert any(said in reason for reason in misfits(table, wanted))
    with pytest.raises(InvalidInputError) as refused:
        check_fits(table, wanted)
    assert said in str(refused.value)
    assert refused.value.kind == "cdc_table_differs"


def test_missing_order_columns_have_advice():
    with pytest.raises(InvalidInputError, match="--sequence none"):
        check_fits(existing(**BASE), made(order=ORDER))


def test_options_that_may_change_are_set_at_a_start():
    table = existing(options={"bucket": "2", "snapshot.time-retained": "1 h"}, **BASE)
    given = {"bucket": "4", "snapshot.time-retained": "2 h", "merge-engine": "first-row",
             "my.own": "x"}  # fmt: skip
    assert option_changes(table, given) == (
        SetOption("snapshot.time-retained", "2 h"), SetOption("my.own", "x"),
    )  # fmt: skip
    assert option_changes(table, {"snapshot.time-retained": "1 h"}) == ()
