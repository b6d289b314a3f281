"""Small histories and what Java Paimon 1.3.1 printed: its batch read, and a stream from the start.

``java_vectors.tsv`` is the table of the research notes (section 13.1), every line of it. Commits
are parted by ``¦``, rows are written ``<kind><values>``, ``FULL`` is a full compaction in the
commit. What is read is compared as it stands; where it differs by a decision the reason is told.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import tidelake
from tidelake import InvalidInputError
from tidelake.errors import UnsupportedError

TYPES = {
    "int": "INT",
    "double": "DOUBLE",
    "str": "STRING",
    "bool": "BOOLEAN",
    "arr": {"type": "ARRAY", "element": "STRING"},
}
PARSERS = {
    "int": int,
    "double": float,
    "str": str,
    "bool": lambda text: text == "true",
    "arr": lambda text: text.split("+"),
}
WHOLE = Path(__file__).with_name("java_vectors.tsv").read_text(encoding="utf-8").splitlines()[1:]
VECTORS = {line.split("\t")[0]: line.split("\t")[1:] for line in WHOLE}

RESULT_HERE = {
    # each part once, as Java 2.x
    "listagg distinct": "[+I(1,a,b)]",
    # in the order of arrival, not of a hash table
    "agg collect distinct": "[+I(1,[a, b, c])]",
}
STREAM_HERE = {
    # Java's writer API leaves the counter to Flink's sink; here the table carries it out
    "full-compaction.delta-commits=1": "[+I(1,1), -U(1,1), +U(1,2), -D(1,2)]",
}
WORDS = {
    "null pk": "'k'",
    "first-row delete": "first-row",
    "partial-update delete default": "partial-update",
    "lone -D partial-update": "partial-update",  # Java notices where two rows meet
    "agg retract max": "'max', which cannot retract rows",
}
"""What is refused, with words of the refusal."""


def table_of(columns, options, warehouse):
    catalog = tidelake.open(warehouse)
    given = dict(option.split("=", 1) for option in options.split(";") if option)
    return catalog.create_table(
        "db.t",
        {name: TYPES[kind] for name, kind in columns.items()},
        primary_keys=["k"],
        options={"bucket": 1, **given},
    )


def take(table, columns, commit):
    texts = commit.split()
    rows = []
    for text in texts:
        if text != "FULL":
            values = zip(columns.items(), text[2:].split(","), strict=True)
            rows.append({n: None if v == "null" else PARSERS[kind](v) for (n, kind), v in values})
    kinds = [text[:2] for text in texts if text != "FULL"]
    table.write(rows, row_kinds=None if "rk" in columns else kinds)
    if "FULL" in texts:
        table.compact(full=True)


def shown(rows):
    def value(v):
        if v is None:
            return "null"
        if isinstance(v, bool):
            return str(v).lower()
        return f"[{', '.join(v)}]" if isinstance(v, list) else str(v)

    def row(values):
        kind = values.pop("_row_kind", "+I")
        return f"{kind}({','.join(map(value, values.values()))})"

    return f"[{', '.join(map(row, rows.to_pylist()))}]"


@pytest.mark.parametrize(
    "name", sorted(set(VECTORS) - {*WORDS, "agg sum overflow", "sequence-group + agg"})
)
def test_what_java_printed_is_read(tmp_path, name):
    columns, options, commits, printed = VECTORS[name]
    columns = dict(column.split() for column in columns.split(","))
    result, _, stream = printed.partition(" ¦¦ stream: ")
    table = table_of(columns, options, tmp_path)
    for commit in commits.split("¦"):
        take(table, columns, commit)
    batch = table.to_arrow()
    if "changelog-producer=input" in options:
        result = result.replace("+U(", "+I(")  # a batch read shows rows, not how they came to be
    assert shown(batch) == RESULT_HERE.get(name, result)
    if not stream:
        return
    combines = "merge-engine=partial-update" in options or "merge-engine=aggregation" in options
    if combines and "changelog-producer" not in options:
        with pytest.raises(UnsupportedError, match="parts of rows: they do not show"):
            table.changes(0, mode="auto")
        return
    assert shown(table.changes(0, mode="auto")) == STREAM_HERE.get(name, stream)


@pytest.mark.parametrize("name", WORDS)
def test_what_java_refuses_is_refused_before_a_byte_is_written(tmp_path, name):
    columns, options, commits, _ = VECTORS[name]
    columns = dict(column.split() for column in columns.split(","))
    *before, last = commits.split("¦")
    table = table_of(columns, options, tmp_path)
    for commit in before:
        take(table, columns, commit)
    files = sorted(tmp_path.rglob("*"))
    with pytest.raises(InvalidInputError, match=WORDS[name]):
        take(table, columns, last)
    assert sorted(tmp_path.rglob("*")) == files


def test_a_function_outside_of_groups_is_refused_with_the_table(tmp_path):
    columns, options, _, _ = VECTORS["sequence-group + agg"]
    columns = dict(column.split() for column in columns.split(","))
    with pytest.raises(InvalidInputError, match=r"'c'.*not in a sequence group"):
        table_of(columns, options, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_sum_that_does_not_fit_is_refused_where_its_rows_meet(tmp_path):
    columns, options, commits, _ = VECTORS["agg sum overflow"]  # Java 1.3.1 wraps around
    columns = dict(column.split() for column in columns.split(","))
    table = table_of(columns, options, tmp_path)
    for commit in commits.split("¦"):
        take(table, columns, commit)
    files = sorted(tmp_path.rglob("*"))
    for act in (table.to_arrow, lambda: table.compact(full=True)):
        with pytest.raises(InvalidInputError, match="does not fit INT"):
            act()
    assert sorted(tmp_path.rglob("*")) == files
    with pytest.raises(InvalidInputError, match="does not fit INT"):
        take(table, columns, commits.replace("¦", " "))
    assert sorted(tmp_path.rglob("*")) == files


def test_every_line_is_run():
    assert len(VECTORS) == len(WHOLE) > 60
