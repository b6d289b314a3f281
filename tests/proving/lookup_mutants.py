"""Planted bugs of rows by key."""

from __future__ import annotations

import tidelake.service.address.liveness as liveness
import tidelake.table.query.keys as keys
import tidelake.table.query.view_builder as view_builder
from proving.planting import edited
from tidelake.lookup.directory import LookupDirectory

__all__ = ["PLANTED"]


def _made_once(make):
    made = set()

    def once(directory):
        if directory not in made:
            made.add(directory)
            make(directory)

    return once


PLANTED = (
    # name; what catches it; where it is, and what stands there instead
    (
        "an executor that was stopped counts as alive",
        "check_hung_executors",
        (liveness.Liveness, "hang", edited("if self._answers(found.report.address):", "if found:")),
    ),
    (
        "an executor that is slow counts as hung",
        "check_hung_executors",
        (liveness.Liveness, "hang", edited("if self._answers(found.report.address):", "if not 1:")),
    ),
    (
        "an executor that never reports is waited for without end",
        "check_hung_executors",
        (liveness.Liveness, "hang", edited("if started is None or seconds <", "if 0 <")),
    ),
    (
        "a lookup file that was removed counts as one without the key",
        "check_files_that_vanish",
        (
            view_builder.ViewBuilder,
            "next_view",
            edited(
                "[next(runs) for _ in own]",
                "[run for run in [next(runs) for _ in own] if run.opened.path.exists()]",
            ),
        ),
    ),
    (
        "the directory of lookup files is made once",
        "check_files_that_vanish",
        (LookupDirectory, "make", _made_once),
    ),
    (
        "a single key may be the text of a date",
        "check_keys_by_every_door",
        (keys, "_quick", lambda quick: lambda field: _from_text(field, quick(field))),
    ),
)


def _from_text(field, quick):
    def read(part):
        is_text = isinstance(part, str) and str(field.type.root.value) == "DATE"
        return 0 if is_text else quick(part)

    return read
