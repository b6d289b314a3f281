"""What a running job says of its epochs."""

from __future__ import annotations

from tidelake.cdc.job.job import EpochDone
from tidelake.cdc.journal.entry import EntryKind
from tidelake.cdc.journal.job_state import JobState, Phase, SyncedTable
from tidelake.cdc.source.source_table import SourceName, SourceTable
from tidelake.cli.cdc_command import _EpochLines

NAMES = {name: SourceName("shop", "", name) for name in ("items", "orders", "users")}


def state(**reasons):
    """Tables with the reason of each that is suspended."""
    tables = {
        full: SyncedTable(
            f"ods.{name}",
            Phase.SUSPENDED if name in reasons else Phase.LIVE,
            SourceTable(full, (), ()),
            reason=reasons.get(name, ""),
        )
        for name, full in NAMES.items()
    }
    return JobState(tables)


def test_a_reason_is_said_once_and_then_counted():
    say = _EpochLines()
    done = EpochDone(7, EntryKind.CHANGES, 1_200, "0/1", "0/1")
    head = "epoch 7: 1,200 rows changed"
    assert say.lines(done, state()) == [head]
    first = say.lines(done, state(items="its key changed"))
    assert first == [head, "    shop.items: suspended (its key changed)"]
    assert say.lines(done, state(items="its key changed")) == [
        f"{head}; 1 table not followed, as said"
    ]
    assert say.lines(done, state(items="its key changed", users="it is odd")) == [
        f"{head}; 1 table not followed, as said",
        "    shop.users: suspended (it is odd)",
    ]
    assert say.lines(done, state(items="another reason", users="it is odd")) == [
        f"{head}; 1 table not followed, as said",
        "    shop.items: suspended (another reason)",
    ]
    assert say.lines(done, state(users="it is odd")) == [
        f"{head}; 1 table not followed, as said",
        "    shop.items: live again",
    ]
    assert say.lines(done, state()) == [head, "    shop.users: live again"]
