"""The command ``tidelake compact``: compacts tables, or keeps them healthy until it is stopped.

Ctrl-C and SIGTERM end the job at once: what is being compacted is given up, its files are deleted,
and the table is free for another job. What was committed stays.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, Protocol

from tidelake.cli._optional import load
from tidelake.cli.output.shown_warnings import shown_warnings
from tidelake.cli.signals import Terminated, ended_by_sigterm
from tidelake.cli.upkeep.arguments import CompactArguments
from tidelake.engine.jobs import MaintenanceRound, TableDone, TablePlan
from tidelake.engine.tables import Catalog, Table, open_catalog
from tidelake.engine.write import WriteResult
from tidelake.errors import NotFoundError, TidelakeError, counted
from tidelake.ui.metrics.maintenance_metrics import MaintenanceCollector
from tidelake.ui.metrics.process_metrics import metrics_port

FAILED, INTERRUPTED, TERMINATED = 1, 130, 143


class Maintainer(Protocol):
    """What does the work: a catalog, or a lake on Spark."""

    @property
    def catalog(self) -> Catalog:
        """The catalog whose tables it works on."""

    def maintain(self, *tables: str, **job: Any) -> MaintenanceRound | tuple[TablePlan, ...]:
        """Keep tables healthy."""

    def compact_all(
        self, tables: tuple[str, ...], *, full: bool, options: Mapping[str, str]
    ) -> Iterator[tuple[str, WriteResult | TidelakeError]]:
        """Compact tables, one after the other."""


def run(given: CompactArguments) -> int:
    """Run the command and return the exit code: 1 if a table failed."""
    try:
        with shown_warnings(), _maintainer(given) as maintainer, ended_by_sigterm():
            if given.dry_run:
                return _plan(maintainer, given)
            if given.watch or given.once:
                return _maintain(maintainer, given)
            return _compact(maintainer, given)
    except TidelakeError as error:
        sys.stdout.flush()
        sys.stderr.write(f"error: {error.message}\n")
        return FAILED
    except Terminated:
        return TERMINATED
    except KeyboardInterrupt:
        return INTERRUPTED


@contextlib.contextmanager
def _maintainer(given: CompactArguments) -> Iterator[Maintainer]:
    if given.on == "spark":
        what = "tidelake compact --on spark"
        module = load("tidelake.cli.on_spark.maintenance", what=what, extra="spark")
        with module.maintainer(given) as found:
            yield found
        return
    yield LocalMaintainer(given)


class LocalMaintainer:
    """Does the work in this process."""

    def __init__(self, given: CompactArguments) -> None:
        self._catalog = open_catalog(
            given.warehouse, catalog=given.catalog_options, memory=given.memory
        )

    @property
    def catalog(self) -> Catalog:
        """The catalog whose tables it works on."""
        return self._catalog

    def maintain(self, *tables: str, **job: Any) -> MaintenanceRound | tuple[TablePlan, ...]:
        """Keep tables healthy."""
        return self._catalog.maintain(*tables, **job)

    def compact_all(
        self, tables: tuple[str, ...], *, full: bool, options: Mapping[str, str]
    ) -> Iterator[tuple[str, WriteResult | TidelakeError]]:
        """Compact tables, one after the other."""
        for name in self._catalog.maintenance_job(*tables).tables():
            try:
                table = self._catalog.table(name)
                assert isinstance(table, Table), "names of tables"
                yield name, table.compact(full=full, options=options)
            except TidelakeError as error:
                yield name, error


def _plan(maintainer: Maintainer, given: CompactArguments) -> int:
    plans = maintainer.maintain(*given.tables, dry_run=True, options=given.options)
    assert isinstance(plans, tuple), "of a dry run"
    for plan in plans:
        if plan.error is not None:
            _say(f"error: {plan.table}: {plan.error}")
            continue
        tasks = [{"task": str(one.task), "figures": dict(one.figures)} for one in plan.tasks]
        _print(json.dumps({"table": plan.table, "tasks": tasks}) if given.as_json else str(plan))
    return FAILED if any(plan.error is not None for plan in plans) else 0


def _maintain(maintainer: Maintainer, given: CompactArguments) -> int:
    if given.watch and not given.as_json:
        _say(f"keeps {', '.join(given.tables)} healthy; Ctrl-C ends it")
    show = _json_lines if given.as_json else _text_lines
    with _counted(maintainer, given) as count:

        def watch(done: MaintenanceRound) -> None:
            count(done)
            show(done)

        last = maintainer.maintain(
            *given.tables,
            rounds=1 if given.once else None,
            interval=given.interval,
            options=given.options,
            watch=watch,
        )
    assert isinstance(last, MaintenanceRound), "of a run"
    return FAILED if last.errors else 0


@contextlib.contextmanager
def _counted(
    maintainer: Maintainer, given: CompactArguments
) -> Iterator[Callable[[MaintenanceRound], None]]:
    """Count rounds for Prometheus, on the port that is asked for; else count nothing."""
    if given.metrics_port is None:
        yield lambda _: None
        return
    catalog = maintainer.catalog
    rounds = MaintenanceCollector(catalog.env.clock)
    names = catalog.maintenance_job(*given.tables).tables
    with metrics_port(catalog, rounds, port=given.metrics_port, names=names) as listening:
        _say(f"Metrics: http://127.0.0.1:{listening.port}/metrics")
        yield rounds.take


def _json_lines(done: MaintenanceRound) -> None:
    for one in done.tables:
        _print(json.dumps({"round": done.number, **_facts(one)}))
    for name, error in done.failed.items():
        _print(json.dumps({"round": done.number, "table": name, "error": str(error)}))


def _facts(done: TableDone) -> dict[str, object]:
    tasks = [
        {
            "task": str(one.task),
            "figures": dict(one.figures),
            "error": None if one.error is None else str(one.error),
        }
        for one in done.tasks
    ]
    return {"table": done.table, "tasks": tasks, "is_taken": done.is_taken}


def _text_lines(done: MaintenanceRound) -> None:
    for one in done.tables:
        _print(f"{_now()} {one}")
    for name, error in done.failed.items():
        _say(f"{_now()} error: {name}: {error}")


def _compact(maintainer: Maintainer, given: CompactArguments) -> int:
    failed = 0
    for name, done in maintainer.compact_all(given.tables, full=given.full, options=given.options):
        if isinstance(done, NotFoundError) and done.kind == "table_not_found":
            continue  # dropped meanwhile
        if isinstance(done, TidelakeError):
            failed += 1
            _say(f"error: {name}: {done.message}")
            continue
        facts = {
            "table": name,
            "snapshots": done.snapshot_ids,
            "files": done.files,
            "bytes": done.bytes,
            "gave_way": done.compactions_dropped,
        }
        _print(json.dumps(facts) if given.as_json else _text(name, done))
    return FAILED if failed else 0


def _text(name: str, done: WriteResult) -> str:
    if not done.snapshot_ids:
        return f"{name}: nothing to compact"
    text = f"{name}: {counted(done.files, 'file')} written, {done.bytes:,} bytes"
    if done.compactions_dropped:
        text += f"; {counted(done.compactions_dropped, 'compaction')} gave way to other commits"
    return text


def _now() -> str:
    return f"{datetime.now():%H:%M:%S}"  # noqa: DTZ005 - shown to the user, in local time


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
