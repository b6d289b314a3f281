"""Any sequence of ALTERs, writes and compactions gives what a model of plain Python gives."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tidelake
from tidelake.fileio import MemoryFileIO
from tidelake.telemetry import Env

INT, LONG, TEXT = "INT", "BIGINT", "STRING"


def cast(value, old, new):
    """The model of a cast; all values are numbers that an INT holds, so none is ever lost."""
    if value is None or old == new:
        return value
    return str(value) if new == TEXT else int(value)


class Model:
    """Rows as dicts from column id to (value, type it was written with), one list per snapshot."""

    def __init__(self, *, keyed):
        self.keyed = keyed
        self.columns = [(0, "k", INT), (1, "a", INT), (2, "b", TEXT)]
        self.next_id = 3
        self.rows = []
        self.moments = []

    def write(self, rows):
        forms = {i: t for i, _, t in self.columns}
        for row in rows:
            stored = {i: (row.get(n), forms[i]) for i, n, _ in self.columns}
            if self.keyed:
                self.rows = [r for r in self.rows if r[0][0] != stored[0][0]]
            self.rows.append(stored)

    def shown(self, columns=None, rows=None):
        columns = columns or self.columns
        result = []
        for row in self.rows if rows is None else rows:
            shown = {}
            for i, name, form in columns:
                value, written = row.get(i, (None, form))
                shown[name] = cast(value, written, form)
            result.append(shown)
        return sorted(result, key=repr)


NUMBERS = st.integers(-(2**31), 2**31 - 1)


@st.composite
def steps(draw):
    return draw(
        st.lists(
            st.sampled_from(["write", "write", "add", "drop", "rename", "retype", "move", "compact",
                             "first", "comment"]),
            min_size=3, max_size=12,
        )
    )  # fmt: skip


def value_for(data, form):
    return data.draw(st.none() | (NUMBERS.map(str) if form == TEXT else NUMBERS))


@pytest.mark.parametrize("keyed", [True, False])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(program=steps(), data=st.data())
def test_a_table_is_what_its_changes_make_it(keyed, program, data):
    catalog = tidelake.open("/w", env=Env.seeded(1), fileio=MemoryFileIO())
    schema = pa.schema({"k": pa.int32(), "a": pa.int32(), "b": pa.string()})
    keys = {"primary_keys": ["k"], "options": {"bucket": 1}} if keyed else {}
    table = catalog.create_table("db.t", schema, **keys)
    model = Model(keyed=keyed)
    seen = 0
    for number, step in enumerate(program):
        free = [c for c in model.columns if c[0] != 0]
        if step == "write":
            rows = [
                {"k": k, **{n: value_for(data, t) for _, n, t in free}}
                for k in data.draw(st.lists(st.integers(0, 5), max_size=4, unique=True))
            ]
            table.write(rows)
            model.write(rows)
        elif step == "compact":
            table.compact(full=True)
        elif step in {"add", "first"}:
            form = data.draw(st.sampled_from([INT, LONG, TEXT]))
            name = f"c{number}"
            table.add_column(name, form, first=step == "first")
            at = 0 if step == "first" else len(model.columns)
            model.columns.insert(at, (model.next_id, name, form))
            model.next_id += 1
        elif step == "comment":
            table.set_comment(f"step {number}")
        elif free:
            column = data.draw(st.sampled_from(free))
            at = model.columns.index(column)
            i, name, form = column
            if step == "drop":
                table.drop_column(name)
                model.columns.pop(at)
            elif step == "rename":
                # sometimes a name that was there before
                new = data.draw(st.sampled_from(["a", "b", f"n{number}"]))
                if new in [n for _, n, _ in model.columns]:
                    continue
                table.rename_column(name, new)
                model.columns[at] = (i, new, form)
            elif step == "retype":
                new = data.draw(st.sampled_from([INT, LONG, TEXT]))
                table.retype_column(name, new)
                model.columns[at] = (i, name, new)
            else:
                others = [n for _, n, _ in model.columns if n != name]
                after = data.draw(st.sampled_from(others))
                table.move_column(name, after=after)
                model.columns.pop(at)
                place = [n for _, n, _ in model.columns].index(after) + 1
                model.columns.insert(place, column)
        assert table.schema.names == [n for _, n, _ in model.columns]
        newest = table.latest_snapshot_id or 0
        for snapshot in range(seen + 1, newest + 1):
            model.moments.append((snapshot, list(model.columns), list(model.rows)))
        seen = newest
    assert sorted(table.to_arrow().to_pylist(), key=repr) == model.shown()
    again = catalog.table("db.t")
    for snapshot, columns, rows in model.moments:
        found = again.to_arrow(snapshot_id=snapshot).to_pylist()
        assert sorted(found, key=repr) == model.shown(columns, rows)
    for i, name, form in model.columns:
        some = next((r[name] for r in model.shown() if r[name] is not None), None)
        if some is not None:
            where = tidelake.col(name) == some
            found = sorted(again.to_arrow(where=where).to_pylist(), key=repr)
            assert found == [r for r in model.shown() if r[name] == some], f"{i} {form}"
        nulls = again.count(where=tidelake.col(name).is_null())
        assert nulls == sum(r[name] is None for r in model.shown())
