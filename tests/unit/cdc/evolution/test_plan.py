"""What becomes of a target when its source has a new version."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelake.cdc.evolution.ddl_entry import DdlEntry, change_text
from tidelake.cdc.evolution.plan import EvolutionAction, EvolutionRules, Policy, plan_evolution
from tidelake.cdc.evolution.type_change import TypeChange, type_change
from tidelake.cdc.source.source_table import SourceColumn, SourceName, SourceTable
from tidelake.cdc.source.type_mapping import TypeMapping
from tidelake.engine.schemas import evolved_schema
from tidelake.errors import CorruptError
from tidelake.types import DataField, TableSchema
from tidelake.types.data_type import parse_type_text

NAME = SourceName("shop", "public", "orders")
ORDER = frozenset({"_cdc_lsn", "_cdc_seq"})


def source(keys=("id",), *, numbered=True, comment=None, identity="", **types):
    """A version: names with types; ``+`` after a type is a default, ``#n`` its number."""
    columns = []
    for place, (name, text) in enumerate(types.items()):
        kind, _, number = text.partition("#")
        data_type = parse_type_text(kind.rstrip("+")) if kind != "?" else None
        columns.append(
            SourceColumn(
                name, kind, data_type,
                number=(int(number) if number else place + 1) if numbered else None,
                has_default=kind.endswith("+"),
            )
        )  # fmt: skip
    return SourceTable(NAME, tuple(columns), keys, identity=identity, comment=comment)


def target(keys=("id",), partitions=(), **types):
    fields = tuple(
        DataField(i, n, parse_type_text(t))
        for i, (n, t) in enumerate({**types, **dict.fromkeys(sorted(ORDER), "BIGINT")}.items())
    )
    return TableSchema(0, fields, len(fields), tuple(partitions), tuple(keys))


def planned(old_target, new, previous, **rules):
    rules.setdefault("reserved", ORDER)
    plan = plan_evolution(old_target, new, previous, EvolutionRules(**rules))
    if plan.changes:  # each plan can be applied
        evolved_schema(old_target, plan.changes, table="t", has_snapshots=True, time_ms=0)
    return plan


def texts(plan):
    return [change_text(change) for change in plan.changes]


BASE = {"id": "BIGINT NOT NULL", "a": "INT", "b": "VARCHAR(10)"}
TARGET = target(**BASE)
BEFORE = source(**BASE)


def test_nothing_changes_where_nothing_did():
    for policy in Policy:
        plan = planned(TARGET, BEFORE, BEFORE, policy=policy)
        assert (plan.action, plan.changes, plan.warnings) == (EvolutionAction.PROCEED, (), ())


def test_a_new_column_is_the_last_and_nullable():
    plan = planned(TARGET, source(**BASE, c="DATE"), BEFORE)
    assert (plan.action, texts(plan)) == (EvolutionAction.PROCEED, ["ADD COLUMN `c` DATE"])


@pytest.mark.parametrize("text", ["INT+", "INT NOT NULL+", "INT NOT NULL"])
def test_a_new_column_with_a_default_is_read_again(text):
    plan = planned(TARGET, source(**BASE, c=text), BEFORE)
    assert (plan.action, texts(plan)) == (EvolutionAction.REREAD, ["ADD COLUMN `c` INT"])
    assert "'c' was added with a default" in plan.reason
    paimon = planned(TARGET, source(**BASE, c=text), BEFORE, policy=Policy.PAIMON)
    assert (paimon.action, texts(paimon)) == (EvolutionAction.PROCEED, ["ADD COLUMN `c` INT"])
    assert "Old rows differ from the source: column 'c' was added" in paimon.warnings[0]


def test_a_larger_type_is_taken_and_a_smaller_ignored():
    wider = source(**{**BASE, "a": "BIGINT", "b": "STRING"})
    plan = planned(TARGET, wider, BEFORE)
    assert plan.action is EvolutionAction.PROCEED
    assert texts(plan) == ["ALTER COLUMN `a` TYPE BIGINT", "ALTER COLUMN `b` TYPE STRING"]
    smaller = planned(TARGET, source(**{**BASE, "b": "VARCHAR(4)"}), BEFORE)
    assert (smaller.action, smaller.changes) == (EvolutionAction.REREAD, ())
    assert smaller.warnings == (
        "Column 'b' stays VARCHAR(10): the source's VARCHAR(4) is smaller.",
    )
    assert "which does not keep each value" in smaller.reason


def test_a_target_that_is_larger_already_is_no_news():
    larger = target(**{**BASE, "a": "BIGINT", "b": "STRING"})
    for previous in (BEFORE, None):
        plan = planned(larger, BEFORE, previous)
        assert (plan.action, plan.changes) == (EvolutionAction.PROCEED, ())
    assert planned(larger, BEFORE, BEFORE).warnings == ()


def test_a_type_that_does_not_convert_suspends_with_advice():
    plan = planned(TARGET, source(**{**BASE, "a": "STRING"}), BEFORE)
    assert (plan.action, plan.changes) == (EvolutionAction.SUSPEND, ())
    assert "column 'a' is INT and the source's STRING, which does not convert" in plan.reason
    assert "--type_mapping allow-non-string-to-string" in plan.reason
    allowed = planned(TARGET, source(**{**BASE, "a": "STRING"}), BEFORE,
                      mapping=TypeMapping.of(["allow-non-string-to-string"]))  # fmt: skip
    assert (allowed.action, texts(allowed)) == (
        EvolutionAction.REREAD,
        ["ALTER COLUMN `a` TYPE STRING"],
    )
    never = planned(TARGET, source(**{**BASE, "a": "DATE"}), BEFORE)
    assert "drop the target and copy it again" in never.reason


def test_decimals_may_be_told_to_stay():
    old = target(**BASE, d="DECIMAL(9, 2)")
    before, after = source(**BASE, d="DECIMAL(9, 2)"), source(**BASE, d="DECIMAL(12, 2)")
    assert texts(planned(old, after, before)) == ["ALTER COLUMN `d` TYPE DECIMAL(12, 2)"]
    stays = planned(old, after, before, mapping=TypeMapping.of(["decimal-no-change"]))
    assert (stays.action, stays.changes) == (EvolutionAction.PROCEED, ())


def test_a_column_that_is_gone_stays_and_may_be_null():
    old = target(**{**BASE, "a": "INT NOT NULL"})
    after = source(id="BIGINT NOT NULL", b="VARCHAR(10)#3")
    for policy in (Policy.ADDITIVE, Policy.PAIMON, Policy.FULL):
        plan = planned(old, after, source(**{**BASE, "a": "INT NOT NULL"}), policy=policy)
        assert (plan.action, texts(plan)) == (
            EvolutionAction.PROCEED,
            ["ALTER COLUMN `a` DROP NOT NULL"],
        )
        assert plan.warnings == ("Column 'a' is gone and stays, null from now on.",)


def test_a_column_that_allows_nulls_now_does_so_in_the_target():
    old = target(**{**BASE, "a": "INT NOT NULL"})
    plan = planned(old, BEFORE, source(**{**BASE, "a": "INT NOT NULL"}))
    assert (plan.action, texts(plan)) == (
        EvolutionAction.PROCEED,
        ["ALTER COLUMN `a` DROP NOT NULL"],
    )
    both = planned(old, source(**{**BASE, "a": "BIGINT"}), None)
    assert texts(both) == ["ALTER COLUMN `a` TYPE BIGINT", "ALTER COLUMN `a` DROP NOT NULL"]
    # nulls of older rows are there, whatever the source says now
    assert planned(TARGET, source(**{**BASE, "a": "INT NOT NULL"}), BEFORE).changes == ()


RENAMED = source(id="BIGINT NOT NULL", aa="INT#2", b="VARCHAR(10)")


def test_a_rename_is_a_rename_only_where_all_is_followed():
    full = planned(TARGET, RENAMED, BEFORE, policy=Policy.FULL)
    assert (full.action, texts(full)) == (EvolutionAction.PROCEED, ["RENAME COLUMN `a` TO `aa`"])
    plan = planned(TARGET, RENAMED, BEFORE)
    assert (plan.action, texts(plan)) == (EvolutionAction.REREAD, ["ADD COLUMN `aa` INT"])
    assert "'a' was renamed to 'aa'" in plan.reason
    paimon = planned(TARGET, RENAMED, BEFORE, policy=Policy.PAIMON)
    assert (paimon.action, texts(paimon)) == (EvolutionAction.PROCEED, ["ADD COLUMN `aa` INT"])


def test_a_renamed_column_may_change_more():
    after = source(id="BIGINT NOT NULL", aa="BIGINT#2", b="VARCHAR(10)", c="DATE")
    full = planned(TARGET, after, BEFORE, policy=Policy.FULL)
    assert texts(full) == [
        "RENAME COLUMN `a` TO `aa`", "ALTER COLUMN `aa` TYPE BIGINT", "ADD COLUMN `c` DATE",
    ]  # fmt: skip


def test_columns_that_swap_names_are_read_again():
    after = source(id="BIGINT NOT NULL", b="INT#2", a="INT#3")
    before = source(id="BIGINT NOT NULL", a="INT#2", b="INT#3")
    plan = planned(
        target(id="BIGINT NOT NULL", a="INT", b="INT"), after, before, policy=Policy.FULL
    )
    assert (plan.action, plan.changes) == (EvolutionAction.REREAD, ())
    assert "'a' was renamed to 'b'" in plan.reason


def test_a_rename_to_a_name_that_is_taken_is_read_again():
    old = target(**BASE, aa="INT")  # a column that was dropped before
    plan = planned(old, RENAMED, BEFORE, policy=Policy.FULL)
    assert (plan.action, plan.changes) == (EvolutionAction.REREAD, ())


def test_without_numbers_a_column_for_a_column_may_be_a_rename():
    before = source(numbered=False, **BASE)
    after = source(numbered=False, id="BIGINT NOT NULL", aa="INT", b="VARCHAR(10)")
    for policy in (Policy.ADDITIVE, Policy.FULL):
        plan = planned(TARGET, after, before, policy=policy)
        assert (plan.action, texts(plan)) == (EvolutionAction.REREAD, ["ADD COLUMN `aa` INT"])
        assert "'aa' came as 'a' went: it may be renamed" in plan.reason


def test_a_column_that_was_dropped_and_added_is_read_again():
    after = source(id="BIGINT NOT NULL", a="INT#7", b="VARCHAR(10)#3")
    plan = planned(TARGET, after, BEFORE)
    assert (plan.action, plan.changes) == (EvolutionAction.REREAD, ())
    assert "'a' was dropped and added again" in plan.reason
    late = planned(target(**BASE, c="INT"), source(**BASE, c="INT"), BEFORE)
    assert late.action is EvolutionAction.REREAD
    assert "'c' is new, and the target has an older one's values" in late.reason
    shard = planned(target(**BASE, c="INT"), source(**BASE, c="INT"), BEFORE, shares_target=True)
    assert shard.action is EvolutionAction.PROCEED


def test_a_table_that_was_made_again_is_read_again():
    plan = planned(TARGET, source(**BASE, identity="2"), source(**BASE, identity="1"))
    assert (plan.action, plan.reason) == (EvolutionAction.REREAD, "it was dropped and made again")


@pytest.mark.parametrize(
    ("old", "after", "said"),
    [
        (TARGET, source(("id", "a"), **BASE), "its primary key was (id) and is (id, a)"),
        (TARGET, source((), **BASE), "its primary key was (id) and is ()"),
        (target(**{**BASE, "id": "INT NOT NULL"}), BEFORE, "key column 'id' is INT and the"),
        (TARGET, source(("a",), a="INT#2", b="VARCHAR(10)#3"), "its primary key was (id)"),
        (target(("id",), ("a",), **BASE), source(id="BIGINT NOT NULL", b="VARCHAR(10)#3"),
         "key column 'a' is gone"),
        (TARGET, source(**BASE, c="?"), "column 'c' has the type ?, which has no counterpart"),
        (TARGET, source(**BASE, _cdc_lsn="INT"), "'_cdc_lsn', as which the job computes another"),
    ],
)  # fmt: skip
def test_what_cannot_be_followed_suspends(old, after, said):
    for policy in Policy:
        plan = planned(old, after, BEFORE, policy=policy)
        assert (plan.action, plan.changes) == (EvolutionAction.SUSPEND, ())
        assert said in plan.reason


def test_a_column_that_a_computed_one_reads_may_not_go():
    after = source(id="BIGINT NOT NULL", b="VARCHAR(10)#3")
    for policy in Policy:
        for new in (after, RENAMED):
            plan = planned(TARGET, new, BEFORE, policy=policy, needed=frozenset({"a", "b"}))
            assert plan.action is EvolutionAction.SUSPEND
            assert plan.reasons == (
                "column 'a' is gone, which a computed column reads: change its definition",
            )


def test_a_key_that_is_not_the_sources_does_not_follow_it():
    own = target(("a",), **{**BASE, "a": "INT NOT NULL"})
    assert planned(own, source(("id", "b"), **BASE), BEFORE).action is EvolutionAction.PROCEED


def test_a_renamed_key_column_is_the_same_key():
    after = source(("nr",), nr="BIGINT NOT NULL#1", a="INT", b="VARCHAR(10)")
    full = planned(TARGET, after, BEFORE, policy=Policy.FULL)
    assert (full.action, texts(full)) == (EvolutionAction.PROCEED, ["RENAME COLUMN `id` TO `nr`"])
    plan = planned(TARGET, after, BEFORE)
    assert plan.action is EvolutionAction.SUSPEND
    assert "key column 'id' was renamed to 'nr': follow it with --evolve full" in plan.reason


@pytest.mark.parametrize(
    "after",
    [source(**BASE, c="INT"), source(**{**BASE, "a": "BIGINT"}), RENAMED,
     source(id="BIGINT NOT NULL", a="INT"), source(**{**BASE, "b": "VARCHAR(4)"}),
     source(**BASE, c="INT+"), source(id="BIGINT NOT NULL", a="INT#9", b="VARCHAR(10)#3")],
)  # fmt: skip
def test_strict_follows_nothing(after):
    plan = planned(TARGET, after, BEFORE, policy=Policy.STRICT)
    assert (plan.action, plan.changes) == (EvolutionAction.SUSPEND, ())
    assert plan.reason.startswith("the policy is strict, and ")


def test_comments_follow_and_do_not_count_as_a_change():
    columns = (*BEFORE.columns[:1], replace(BEFORE.columns[1], comment="new"), BEFORE.columns[2])
    after = replace(BEFORE, columns=columns, comment="it's")
    plan = planned(TARGET, after, BEFORE)
    assert texts(plan) == ["ALTER COLUMN `a` COMMENT 'new'", "COMMENT 'it''s'"]
    strict = planned(TARGET, after, BEFORE, policy=Policy.STRICT)
    assert (strict.action, strict.changes) == (EvolutionAction.PROCEED, ())


def test_names_are_compared_as_the_catalog_does():
    after = source(("ID",), ID="BIGINT NOT NULL", A="INT", B="VARCHAR(10)", C="INT")
    before = source(("ID",), ID="BIGINT NOT NULL", A="INT", B="VARCHAR(10)")
    plan = planned(TARGET, after, before, case_sensitive=False)
    assert (plan.action, texts(plan)) == (EvolutionAction.PROCEED, ["ADD COLUMN `c` INT"])
    twice = source(("ID",), ID="BIGINT NOT NULL", A="INT", a="INT")
    assert "several columns 'a'" in planned(TARGET, twice, before, case_sensitive=False).reason


def test_a_start_without_the_version_before_still_follows():
    plan = planned(TARGET, source(**{**BASE, "a": "BIGINT"}, c="DATE"), None)
    assert (plan.action, texts(plan)) == (
        EvolutionAction.PROCEED, ["ALTER COLUMN `a` TYPE BIGINT", "ADD COLUMN `c` DATE"],
    )  # fmt: skip
    lossy = planned(target(**BASE, d="DECIMAL(9, 4)"), source(**BASE, d="DECIMAL(12, 2)"), None)
    assert lossy.action is EvolutionAction.REREAD


def test_types_inside_types_follow():
    old = target(**BASE, l="ARRAY<INT>")
    before, after = source(**BASE, l="ARRAY<INT>"), source(**BASE, l="ARRAY<BIGINT>")
    plan = planned(old, after, before)
    assert texts(plan) == ["ALTER COLUMN `l`.`element` TYPE BIGINT"]


def test_a_journal_entry_is_a_line():
    entry = DdlEntry(7, "ods.orders", str(NAME), ("ADD COLUMN `ä` INT",), "0/1", "reread", "why",
                     ("note",))  # fmt: skip
    line = entry.to_json()
    assert "\n" not in line
    assert "ä" in line
    assert DdlEntry.from_json(line) == entry
    for broken in ("{", "[]", line.replace('"v": 1', '"v": 2'), line.replace("epoch", "epok")):
        with pytest.raises(CorruptError):
            DdlEntry.from_json(broken)


def test_an_added_nested_type_is_nullable_in_the_target():
    plan = planned(TARGET, source(**BASE, m="MAP<STRING, INT>"), BEFORE)
    assert texts(plan) == ["ADD COLUMN `m` MAP<STRING, INT>"]


KINDS = ["INT", "BIGINT", "INT NOT NULL", "VARCHAR(5)", "STRING", "DATE", "DECIMAL(9, 2)",
         "DECIMAL(12, 4)", "ARRAY<INT>", "ARRAY<BIGINT>", "INT+", "STRING NOT NULL+"]  # fmt: skip


@st.composite
def versions(draw, *, numbered):
    """Two versions of a table, of columns that come, go, change and are renamed."""
    names = st.lists(st.sampled_from("abcde"), unique=True, max_size=4)
    made = []
    for _ in range(2):
        numbers = draw(st.permutations(range(2, 7)))
        columns = {
            name: f"{draw(st.sampled_from(KINDS))}#{number}"
            for name, number in zip(draw(names), numbers, strict=False)
        }
        made.append(source(numbered=numbered, id="BIGINT NOT NULL#1", **columns))
    return made


@given(st.booleans().flatmap(lambda n: versions(numbered=n)), st.sampled_from(Policy))
def test_rows_of_the_new_version_fit_a_target_that_followed(pair, policy):
    before, after = pair
    old_target = target(**{c.name: str(c.type) for c in before.columns})
    plan = planned(old_target, after, before, policy=policy)
    if plan.action is EvolutionAction.SUSPEND:
        assert not plan.changes
        return
    new_target = evolved_schema(old_target, plan.changes, table="t", has_snapshots=True, time_ms=0)
    given_types = {c.name: c.type for c in after.columns}
    for column in new_target.fields:
        if column.name in given_types:
            change = type_change(given_types[column.name], column.type.as_nullable())
            assert change is TypeChange.CONVERT
            assert column.type.nullable or not given_types[column.name].nullable
        else:
            assert column.type.nullable
    assert set(given_types) <= set(new_target.field_names)
    # and once followed, there is nothing more to follow
    again = planned(new_target, after, after, policy=policy)
    assert (again.action, again.changes) == (EvolutionAction.PROCEED, ())
