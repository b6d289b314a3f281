"""What the steps of a case changed, as rows with kinds, by the model of the producers."""

from __future__ import annotations

from collections.abc import Sequence

from proving.changelog import ChangelogModel

from interop.case import Case, Compact, Delete, Step, Values, Write

NO_PRODUCER = "none"


def modes_of(case: Case) -> list[str]:
    """Where the changes of a case's table can be read from.

    Without a producer there are no changelog files. A row that was written into a table that
    combines rows is a part of one: alone it says nothing, and we refuse to show it.
    """
    kept = case.options.get("changelog-producer", NO_PRODUCER) != NO_PRODUCER
    return [*(["changelog"] if kept else []), *([] if case.combines else ["delta"])]


def logged(case: Case, mode: str) -> list[list[Values]] | None:
    """The changes of each step, ``(kind, *row)``; None where the model does not know them.

    Parameters
    ----------
    case : Case
        Its steps; the model knows writes, deletes by key and full compactions.
    mode : {'changelog', 'delta'}
        What the producer wrote, or the rows of each flush.
    """
    known = all(isinstance(s, Write | Compact) or (isinstance(s, Delete) and not s.where)
                for s in case.steps)  # fmt: skip
    if not known or case.primary_keys not in {(), tuple(case.columns)[:1]}:
        return None
    model = ChangelogModel(tuple(case.columns), case.options)
    return [_of_step(case, model, step, mode) for step in case.steps]


def _of_step(case: Case, model: ChangelogModel, step: Step, mode: str) -> list[Values]:
    if isinstance(step, Compact):
        logs = {"full-compaction": model.compact_fully()}
        return [] if mode == "delta" else logs.get(case.options["changelog-producer"], [])
    if isinstance(step, Delete):  # its rows hold the key and nothing else
        nulls = (None,) * (len(case.columns) - len(case.primary_keys))
        rows = [("-D", *key, *nulls) for key in step.keys]
    else:
        assert isinstance(step, Write)
        kinds = step.kinds or ["+I"] * len(step.rows)
        rows = [(kind, *row) for kind, row in zip(kinds, step.rows, strict=True)]
    if not case.primary_keys:
        return rows
    given, looked_up = model.write(rows)
    if mode == "delta":
        return model.flushed
    return {"input": given, "lookup": looked_up}.get(case.options["changelog-producer"], [])


def packed_changes(changes: Sequence[Values]) -> list[Values]:
    """As ``$binlog`` shows them: each value in a list, an update's two values in one."""
    rows: list[Values] = []
    before: Values | None = None
    for kind, *row in changes:
        if before is not None and kind == "+U" and row[0] == before[0]:
            rows.append(("+U", *([a, b] for a, b in zip(before, row, strict=True))))
            before = None
            continue
        assert before is None, "the model knows no half of an update"
        if kind == "-U":
            before = tuple(row)
        else:
            rows.append((kind, *([value] for value in row)))
    assert before is None, "the model knows no half of an update"
    return rows
