"""Random tables both ways against Java: part of `make interop-fuzz`, and what failed once."""

from pathlib import Path

import pytest
from sizes import SIZE

from interop.cells import value_cell
from interop.fuzz.both import run
from interop.fuzz.capability import ENGINES
from interop.fuzz.draw import draw
from interop.fuzz.made import judged, made_by_java
from interop.fuzz.program import Model, Program
from interop.fuzz.shrink import shrink
from interop.matrix import DIFFERS

FIXTURES = sorted((Path(__file__).parent / "fuzz" / "fixtures").glob("*.json"))
SEEDS = range(1_000, 1_000 + SIZE.fuzz_seeds)


DESCENDING = (407, 820, 1_076, 326, 163, 197, 337, 485, 693, 726, 740, 821)[: SIZE.fuzz_seeds // 4]
"""Seeds of tables whose smallest sequence is the newest; the first are written by both in turns."""


@pytest.mark.oracle
@pytest.mark.parametrize("seed", sorted({*SEEDS, *DESCENDING}))
def test_a_random_table_is_the_same_to_java_to_us_and_to_a_dict(seed, peer, tmp_path):
    outcome = run(draw(seed), peer, tmp_path)
    assert outcome.failure is None, f"replay: make interop-fuzz SEED={seed}"


@pytest.mark.oracle
@pytest.mark.parametrize("fixture", FIXTURES, ids=lambda p: p.stem)
def test_what_failed_once_is_mended(fixture, peer, tmp_path):
    program = Program.from_json(fixture.read_text(encoding="utf-8"))
    assert run(program, peer, tmp_path).failure is None


@pytest.mark.oracle
@pytest.mark.parametrize(
    "made", made_by_java()[:: SIZE.made_by_java_step], ids=lambda m: m.name.replace(" ", "_")
)
def test_a_table_that_java_makes_is_read_equal_at_every_snapshot(made, peer, tmp_path):
    verdict = judged(made, peer, tmp_path)
    assert verdict.word != DIFFERS, verdict.more


def test_java_makes_more_than_a_hundred_tables_of_different_names():
    names = [made.name for made in made_by_java()]
    assert len(names) == len(set(names)) > 100


def test_every_kind_of_table_and_step_is_drawn():
    programs = [draw(seed) for seed in range(300)]
    assert {s["op"] for p in programs for s in p.steps} == {
        "write", "overwrite", "compact", "alter", "drop", "rescale",
    }  # fmt: skip
    changed_by = {(s["by"], s["op"]) for p in programs for s in p.steps}
    assert {("java", "drop"), ("java", "rescale"), ("java", "alter")} <= changed_by
    assert {p.options.get("bucket") for p in programs} >= {"1", "2", "3", "-1", "-2"}
    assert {p.options.get("file.format") for p in programs} == {None, "orc", "avro"}
    roots = {t["type"].split()[0] for p in programs for _, t in p.columns if isinstance(t, dict)}
    assert roots == {"ARRAY", "MAP", "ROW", "MULTISET"}
    assert any(p.primary_keys and set(p.partition_keys) - set(p.primary_keys) for p in programs)
    assert {p.options.get("merge-engine") for p in programs} == {None, *ENGINES}
    producers = {p.options.get("changelog-producer") for p in programs}
    assert producers == {None, "input", "lookup", "full-compaction"}
    bits = {p.options.get("deletion-vectors.bitmap64") for p in programs}
    assert bits == {None, "true", "false"}
    combined = [p for p in programs if "merge-engine" in p.options]
    assert any(key.endswith(".sequence-group") for p in combined for key in p.options)
    assert "sum" in {value for p in combined for value in p.options.values()}
    kinds = {r[0] for p in combined for s in p.steps for r in s.get("rows", ())}
    assert kinds == {"+I", "+U", "-U", "-D"}
    changes = [c for p in programs for s in p.steps for c in s.get("changes", ())]
    assert any(isinstance(c.get("name"), list) for c in changes)


def test_the_sequence_field_is_drawn_in_both_directions():
    orders = [draw(s).options.get("sequence.field.sort-order") for s in DESCENDING]
    assert set(orders) == {"descending"}
    drawn = {draw(s).options.get("sequence.field.sort-order") for s in range(300)}
    assert drawn == {None, "ascending", "descending"}


def test_a_seed_gives_the_same_program_and_a_file_of_it_too():
    for seed in range(50):
        program = draw(seed, uncovered=True)
        assert program == draw(seed, uncovered=True)
        assert Program.from_json(program.to_json()).to_json() == program.to_json()
    assert draw(1) != draw(2)


def test_the_model_knows_the_newest_row_of_a_key():
    program = Program(
        (("k", "INT NOT NULL"), ("v", "STRING")), primary_keys=("k",), options={"bucket": "1"}
    )
    model = Model(program)
    model.apply(
        {"op": "write", "rows": [["+I", "1", "s:a"], ["+I", "2", "s:b"], ["-D", "1", None]]}
    )
    assert model.rows() == [("2", "s:b")]
    change = {"change": "add", "name": "n", "type": "INT", "first": True}
    model.apply({"op": "alter", "changes": [change]})
    assert model.rows() == [(None, "2", "s:b")]


def test_the_model_combines_rows_of_a_key_and_forgets_those_of_a_partition():
    columns = (("p", "STRING NOT NULL"), ("k", "INT NOT NULL"), ("n", "INT"), ("s", "STRING"))
    options = {"merge-engine": "aggregation", "fields.n.aggregate-function": "max"}
    model = Model(Program(columns, ("p", "k"), ("p",), options))
    first = ["+I", "s:a", "1", "9", "s:x"]
    rows = [first, ["+I", "s:a", "1", "10", None], ["+U", "s:b", "1", None, None]]
    model.apply({"op": "write", "rows": rows})
    assert model.rows() == [("s:a", "1", "10", "s:x"), ("s:b", "1", None, None)]
    model.apply({"op": "alter", "changes": [{"change": "add", "name": "w", "type": "DATE"}]})
    model.apply({"op": "drop", "partitions": [{"p": "s:a"}]})
    model.apply({"op": "write", "rows": [["+I", "s:b", "1", "-3", "s:y", "day:1"]]})
    assert model.rows() == [("s:b", "1", "-3", "s:y", "day:1")]


def test_the_model_takes_rows_back_and_forgets_removed_ones_with_a_full_compaction():
    columns = (("k", "INT NOT NULL"), ("n", "BIGINT"), ("s", "STRING"))
    options = {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum"}
    summed = options | {"fields.default-aggregate-function": "last_value"}
    model = Model(Program(columns, ("k",), (), summed))
    model.apply({"op": "write", "rows": [["+I", "1", "9", "s:x"], ["+I", "1", "-2", "s:y"]]})
    model.apply({"op": "write", "rows": [["-U", "1", "4", "s:y"]]})
    assert model.rows() == [("1", "3", None)]
    first = {"fields.s.aggregate-function": "first_value"}
    removed = options | first | {"aggregation.remove-record-on-delete": "true"}
    model = Model(Program(columns, ("k",), (), removed))
    model.apply({"op": "write", "rows": [["+I", "1", "9", "s:x"], ["-D", "1", None, None]]})
    assert model.rows() == []
    model.apply({"op": "compact", "full": True})
    model.apply({"op": "write", "rows": [["+I", "1", "5", "s:y"]]})
    assert model.rows() == [("1", "5", "s:y")]


def test_the_model_changes_fields_inside_arrays_of_rows():
    fields = [{"id": 0, "name": "x", "type": "INT"}, {"id": 0, "name": "y", "type": "STRING"}]
    form = {"type": "ARRAY", "element": {"type": "ROW", "fields": fields}}
    cell = value_cell([(1, "a"), None, (None, "b")], form)
    model = Model(Program((("r", form),)))
    model.apply({"op": "write", "rows": [["+I", cell], ["+I", None]]})
    way = ["r", "element"]
    changes = [
        {"change": "drop", "name": [*way, "y"]},
        {"change": "add", "name": [*way, "z"], "type": "DATE"},
        {"change": "retype", "name": [*way, "x"], "from": "INT", "type": "STRING"},
        {"change": "rename", "name": [*way, "x"], "to": "xx"},
    ]
    model.apply({"op": "alter", "changes": changes})
    fields = [{"name": "xx", "type": "STRING"}, {"name": "z", "type": "DATE"}]
    form = {"type": "ARRAY", "element": {"type": "ROW", "fields": fields}}
    assert model.rows() == [(value_cell([("1", None), None, (None, None)], form),), (None,)]


def test_the_model_s_rows_wait_in_the_postpone_bucket_and_go_with_their_partition():
    columns = (("p", "STRING NOT NULL"), ("k", "INT NOT NULL"))
    model = Model(Program(columns, ("p", "k"), ("p",), {"bucket": "-2"}))
    model.apply({"op": "write", "rows": [["+I", "s:a", "1"], ["+I", "s:b", "2"]]})
    assert model.rows() == []
    model.apply({"op": "drop", "partitions": [{"p": "s:a"}]})
    model.apply({"op": "compact"})
    assert model.rows() == [("s:b", "2")]


def test_shrinking_keeps_what_fails_and_nothing_else():
    wanted = value_cell(7, "INT")
    rows = [["+I", str(n), f"s:{n}", None] for n in range(20)]
    steps = tuple({"by": "java", "op": "write", "rows": rows[i:]} for i in range(5))
    program = Program(
        (("k", "INT NOT NULL"), ("v", "STRING"), ("w", "INT")), ("k",), (), {"bucket": "2"}, steps
    )

    def fails(p):
        return any(r[1] == wanted for s in p.steps for r in s.get("rows", ()))

    small = shrink(program, fails)
    assert [s["rows"] for s in small.steps] == [[["+I", wanted]]]
    assert small.columns == (("k", "INT NOT NULL"),)
    assert small.options == {}


def test_shrinking_leaves_out_partitions_of_a_drop():
    named = [{"p": f"s:{n}"} for n in range(5)]
    program = Program((("p", "STRING"), ("v", "INT")), (), ("p",)).with_steps(
        ({"by": "java", "op": "drop", "partitions": named},)
    )
    small = shrink(program, lambda p: any(named[3] in s["partitions"] for s in p.steps))
    assert [s["partitions"] for s in small.steps] == [[named[3]]]
