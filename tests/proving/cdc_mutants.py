"""Planted bugs of change data capture, and the checks that must notice each.

Most are hunted by the drawn jobs over a database in memory, which are quick and the same each time.
What PostgreSQL's decoder does is hunted on a real one: a few statements, and the comparison of
:mod:`proving.cdc_servers`.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from unit.cdc.job import test_job
from unit.cdc.job.conftest import ITEMS, ORDERS, Bench
from unit.cdc.job.test_drawn import Draw

import tidelake.cdc.postgres.log.decoder as decoder
import tidelake.cdc.postgres.log.row_changes as row_changes
from proving.cdc_databases import Shop
from proving.cdc_servers import REFUSALS, Run
from proving.planting import Plant, edited, passed_over, replaced, together
from tidelake.cdc.job.job import SyncJob
from tidelake.cdc.job.lake import LakeWriter
from tidelake.cdc.target.epoch_step import EpochStep
from tidelake.cdc.target.target import Target
from tidelake.engine.write import CommitIdentity
from tidelake.errors import TidelakeError
from tidelake.testing import SimulatedCrash

__all__ = [
    "MUTANTS",
    "Mutant",
    "check_drawn_jobs",
    "check_old_journals",
    "check_statements",
    "hunt",
]

DRAWN = 40
JOURNAL = "/lake/_cdc/job"
OLD_JOURNALS = 12
STATEMENTS = (
    "UPDATE items SET name = 'touched'",
    "UPDATE items SET id = id + 1000, done = NOT done WHERE MOD(id, 3) = 0",
    "UPDATE orders SET region = 'west' WHERE MOD(id, 4) = 0",
    "UPDATE notes SET day = MOD(day + 13, 30)",
    "DELETE FROM items WHERE MOD(id, 7) = 0",
)


@dataclass(frozen=True)
class Mutant:
    """One planted bug.

    Parameters
    ----------
    caught_by : str
        The check that must notice it.
    """

    name: str
    caught_by: str
    plant: Plant


# ---- checks


def check_drawn_jobs() -> None:
    """Jobs over drawn databases in memory, cut off by crashes and errors."""
    for seed in range(DRAWN):
        Draw(seed).run()


def check_directed_jobs() -> None:
    """What drawn jobs seldom meet, each for itself."""
    for check in (
        test_job.test_a_truncation_before_a_copy_does_not_empty_it,
        test_job.test_an_epoch_that_an_error_cut_off_is_not_done_at_the_close,
        test_job.test_a_journal_that_lacks_an_epoch_which_some_tables_have_is_refused,
    ):
        bench = Bench()
        bench.database.create("items", ITEMS)
        bench.database.create("orders", ORDERS)
        check(bench)


def check_old_journals() -> None:
    """A journal that is put back from an older copy is refused, or catches up."""
    for seed in range(OLD_JOURNALS):
        _old_journal(random.Random(seed))


def _old_journal(rng: random.Random) -> None:
    bench = Bench()
    bench.database.create("items", [("id", "INT NOT NULL"), ("v", "INT")])
    bench.database.create("events", [("n", "INT NOT NULL")], keys=())
    kept: list[dict[str, bytes]] = []

    def work() -> None:
        for _ in range(rng.randrange(1, 4)):
            put = ("items", "put", {"id": rng.randrange(5), "v": rng.randrange(100)})
            bench.database.commit(put, ("events", "put", {"n": len(bench.database.log)}))

    def fails(moment: str) -> None:
        if moment == "chunk" and rng.random() < 0.5:
            raise SimulatedCrash

    work()
    for _ in range(4):
        with contextlib.suppress(SimulatedCrash):
            bench.run(fails).close()
        kept.append(_journal_of(bench))
        work()
    bench.run().close()
    newest = _journal_of(bench)
    work()
    _put_back(bench, rng.choice(kept))
    bench.database.forgotten = 0  # as a log of MySQL, which keeps all
    try:
        bench.run().close()
    except TidelakeError as error:
        if error.kind not in REFUSALS:
            raise
        _put_back(bench, newest)
        bench.run().close()
    bench.check()


def _journal_of(bench: Bench) -> dict[str, bytes]:
    names = [f"{JOURNAL}/{one.name}" for one in bench.fileio.list_dir(JOURNAL)]
    return {name: bench.fileio.read_bytes(name) for name in names}


def _put_back(bench: Bench, files: dict[str, bytes]) -> None:
    bench.fileio.delete_dir(JOURNAL)
    bench.fileio.make_dirs(JOURNAL)
    for path, data in files.items():
        bench.fileio.put_if_absent(path, data)


def check_statements(shop: Shop, place: Path) -> None:
    """A few statements on a real database, which a job follows in two lives."""
    run = Run(shop, 1, place, lives=0)
    assert not run.one_table
    assert not run.whole
    run.given.pop("primary_keys", None)
    run.application.fill()
    run.last_life()
    connection = shop.connect()
    try:
        for statement in STATEMENTS:
            connection.cursor().execute(statement)
            connection.commit()
    finally:
        connection.close()
    run.last_life()
    run.check()


CHECKS = (check_directed_jobs, check_old_journals, check_drawn_jobs)
"""Those without a server."""

# ---- bugs


def _takes_tables_as_they_are_now(original: Callable) -> Callable:
    def again(self: SyncJob, entry: Any) -> Any:
        for table in self._source.tables():
            if (known := self.state.tables.get(table.name)) is not None:
                self.state = self.state.with_table(table.name, replace(known, version=table))
        return original(self, entry)

    return again


_COMPARES_NOTHING = together(
    replaced(LakeWriter, "matched", lambda _: lambda lake, entry, state, user: state),
    replaced(LakeWriter, "check_new", passed_over),
)

MUTANTS = (
    Mutant(
        "an epoch is confirmed before its commits",
        "check_drawn_jobs",
        replaced(
            SyncJob,
            "_put",
            edited("self._source.confirm(self.position)", "self._source.confirm(end)"),
        ),
    ),
    Mutant(
        "the end of an epoch is not in the journal",
        "check_drawn_jobs",
        replaced(
            SyncJob, "_put", edited("kind, self.position, end,", "kind, *[self.position] * 2,")
        ),
    ),
    Mutant(
        "a large value that an update left alone becomes null",
        "check_statements",
        replaced(
            decoder,
            "row_changes",
            edited("if column.unchanged is not None and", "if False and"),
        ),
    ),
    Mutant(
        "a changed key leaves its old row",
        "check_statements",
        replaced(
            row_changes, "_changed_keys", lambda _: lambda sent, *_: np.zeros_like(sent.has_new)
        ),
    ),
    Mutant(
        "a changed key that is not the source's leaves its old row",
        "check_drawn_jobs",
        replaced(SyncJob, "_key_columns", lambda _: lambda self, _: frozenset()),
    ),
    Mutant(
        "a job that starts takes the tables as they are now for those of its journal",
        "check_drawn_jobs",
        replaced(SyncJob, "_again", _takes_tables_as_they_are_now),
    ),
    Mutant(
        "a copy is put beside the rows that are there",
        "check_drawn_jobs",
        replaced(Target, "replace", lambda _: lambda self, *given: self.add(*given[:2])),
    ),
    Mutant(
        "a truncation is passed over",
        "check_drawn_jobs",
        replaced(LakeWriter, "_take_truncation", passed_over),
    ),
    Mutant(
        "a truncation before a copy empties the copy",
        "check_directed_jobs",
        replaced(LakeWriter, "_take", edited("part.order <= table.since", "part.order < (-1, -1)")),
    ),
    Mutant(
        "a close says that an epoch is done which an error cut off",
        "check_directed_jobs",
        replaced(
            SyncJob, "close", edited("if self._is_done and not self._is_said:", "if self.position:")
        ),
    ),
    Mutant(
        "a journal that is behind its tables is not noticed",
        "check_old_journals",
        together(
            _COMPARES_NOTHING,
            replaced(
                EpochStep,
                "identity",
                lambda _: lambda self, handle, _: CommitIdentity.of(handle, self.user, self.epoch),
            ),
        ),
    ),
    Mutant(
        "a start does not compare the journal with the tables",
        "check_directed_jobs",
        _COMPARES_NOTHING,
    ),
    Mutant(
        "a copy is known by its epoch alone",
        "check_old_journals",
        together(
            _COMPARES_NOTHING,
            replaced(
                SyncJob, "_copy_once", edited("self.epoch, copy.position)", 'self.epoch, "")')
            ),
        ),
    ),
)


def hunt(mutant: Mutant, check: Callable[[], None]) -> bool:
    """Plant a bug and run a check; whether it noticed."""
    with mutant.plant():
        try:
            check()
        except (AssertionError, TidelakeError, LookupError, ValueError, pytest.fail.Exception):
            return True
    return False
