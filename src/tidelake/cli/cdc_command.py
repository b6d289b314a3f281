"""The command ``tidelake cdc``: jobs of change data capture.

``tidelake cdc <command> --name value ...`` runs a job with Paimon's arguments, and
``tidelake cdc run job.toml`` one of a file. Other verbs take either: ``plan``, ``status``,
``epochs``, ``resnapshot``, ``replay``, ``drop``.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from tidelake.cdc.door import (
    SYNC_COMMANDS,
    EntryKind,
    EpochDone,
    Given,
    JobFigures,
    JobMetrics,
    JobState,
    Phase,
    SecretWays,
    Sync,
    SyncJob,
    SyncProgress,
    config_of,
    read_job,
    read_words,
)
from tidelake.cli.arguments import CdcArguments
from tidelake.cli.cdc_help import METRICS, help_of_all, help_of_command, help_of_verb
from tidelake.cli.declaration import CDC_VERBS
from tidelake.cli.output.sync_view import redrawn, sync_lines
from tidelake.cli.signals import Terminated, ended_by_sigterm
from tidelake.engine.env import Env
from tidelake.errors import InvalidInputError, TidelakeError, counted, near_names

FAILED, USAGE, INTERRUPTED, TERMINATED = 1, 2, 130, 143
ARGUMENT_KINDS = frozenset({"cdc_argument", "cdc_command", "cdc_job_file", "option_key"})
JSON = "--json"
HELP = frozenset({"-h", "--help"})
PORT_MAX = 65_535


def run(arguments: CdcArguments) -> int:
    """Run the command and return the exit code."""
    words = list(arguments.words)
    as_json = JSON in words
    words = [word for word in words if word != JSON]
    if not words or words[0] in HELP:
        sys.stdout.write(help_of_all())
        return 0
    if words[0] in SYNC_COMMANDS and HELP & set(words[1:2]):
        sys.stdout.write(help_of_command(words[0]))
        return 0
    if words[0] in CDC_VERBS and HELP & set(words[1:]):
        sys.stdout.write(help_of_verb(words[0]))
        return 0
    try:
        return _run(words, as_json=as_json)
    except TidelakeError as error:
        sys.stdout.flush()
        sys.stderr.write(f"error: {error.message}\n")
        is_usage = isinstance(error, InvalidInputError) and error.kind in ARGUMENT_KINDS
        return USAGE if is_usage else FAILED


def _run(words: Sequence[str], *, as_json: bool) -> int:
    words, metrics_port = _without_port(words)
    if not words:
        message = f"Name a command beside {METRICS}."
        raise InvalidInputError(message, kind="cdc_argument", option="metrics_port")
    verb, rest = words[0], list(words[1:])
    if verb in SYNC_COMMANDS or verb == "run":
        job = rest if verb == "run" else words
        return _follow(_sync(job), as_json=as_json, metrics_port=metrics_port)
    if metrics_port is not None:
        message = f"{METRICS} is for a job that runs, not for '{verb}'."
        raise InvalidInputError(message, kind="cdc_argument", option="metrics_port")
    if verb not in CDC_VERBS:
        known = [*SYNC_COMMANDS, *CDC_VERBS]
        hint = near_names(verb, known) or f" There are: {', '.join(known)}."
        message = f"There is no command '{verb}'.{hint}"
        raise InvalidInputError(message, kind="cdc_command")
    if verb == "resnapshot":
        if not rest:
            message = "Name the table, then the job: tidelake cdc resnapshot TABLE job.toml"
            raise InvalidInputError(message, kind="cdc_argument")
        table = rest.pop(0)
        _sync(rest).resnapshot(table)
        sys.stdout.write(f"{table} is copied again when the job looks, or at its next start\n")
        return 0
    if verb == "replay":
        is_named = bool(rest) and rest[0] not in SYNC_COMMANDS and not Path(rest[0]).is_file()
        named = rest.pop(0) if is_named else None
        return _replay(_sync(rest), named, as_json=as_json)
    return _VERBS[verb](_sync(rest), as_json)


def _without_port(words: Sequence[str]) -> tuple[list[str], int | None]:
    """The words without the port of the metrics, and the port."""
    rest, found = list(words), None
    for place, word in enumerate(words):
        name, sign, value = word.partition("=")
        if name != METRICS:
            continue
        if not sign:
            value = words[place + 1] if place + 1 < len(words) else ""
        if not value.isdecimal() or int(value) > PORT_MAX:
            message = f"{METRICS} needs a port from 0 to {PORT_MAX}; 0 takes a free one."
            raise InvalidInputError(message, kind="cdc_argument", option="metrics_port")
        found = int(value)
        del rest[place : place + (1 if sign else 2)]
        break
    return rest, found


def _sync(words: Sequence[str]) -> Sync:
    """The job that words name: a file, or a command with its arguments."""
    command, given = _given(words)
    ask = getpass.getpass if sys.stdin.isatty() else None
    ways = SecretWays(os.environ, lambda path: Path(path).read_text(encoding="utf-8"), ask)
    return Sync(config_of(command, given), ways, Env.system())


def _given(words: Sequence[str]) -> tuple[str, Given]:
    if not words:
        message = "Name a job: a file such as job.toml, or a command with its arguments."
        raise InvalidInputError(message, kind="cdc_argument")
    first, rest = words[0], words[1:]
    if first in SYNC_COMMANDS:
        return first, read_words(first, rest)
    path = Path(first)
    if not path.is_file():
        hint = near_names(first, SYNC_COMMANDS)
        message = f"There is no file '{first}', and no command of that name.{hint}"
        raise InvalidInputError(message, kind="cdc_argument")
    command, given = read_job(path.read_text(encoding="utf-8"), path=first)
    more = read_words(command, rest)
    twice = sorted(set(given) & set(more) - {"once"})
    if twice:
        message = f"'{twice[0]}' is in {first} and on the command line: give it once."
        raise InvalidInputError(message, kind="cdc_argument", option=twice[0])
    return command, {**given, **more}


# ---- verbs


def _follow(sync: Sync, *, as_json: bool, metrics_port: int | None) -> int:
    with contextlib.ExitStack() as stack:
        is_live = sys.stderr.isatty() and not as_json
        show = _Screen().show if is_live else None
        progress = sync.progress = SyncProgress(sync.name, Env.system().clock, show)
        if metrics_port is not None:
            metrics = JobMetrics(lambda: progress.figures, port=metrics_port)
            stack.callback(metrics.close)
            sys.stderr.write(f"Metrics: http://127.0.0.1:{metrics.port}/metrics\n")
        stack.enter_context(ended_by_sigterm())
        try:
            sync.run(watch=_json_line if as_json else None if is_live else _EpochLines())
        except KeyboardInterrupt as stop:
            sys.stderr.write(f"job {sync.name} stopped\n")
            sys.stderr.write("".join(f"    {line}\n" for line in _held(sync)))
            return TERMINATED if isinstance(stop, Terminated) else INTERRUPTED
    return 0


def _held(sync: Sync) -> list[str]:
    """What a job leaves in its source."""
    try:
        return sync.held()
    except TidelakeError as error:
        return [f"What the source holds for it is not known: {error.message}"]


class _Screen:
    """The table on the terminal of the error stream; the lines before are drawn over."""

    def __init__(self) -> None:
        self._lines_count = 0

    def show(self, figures: JobFigures) -> None:
        size = shutil.get_terminal_size()
        lines = sync_lines(figures)
        if len(lines) >= size.lines:  # what leaves the screen cannot be drawn over
            lines = [*lines[: max(1, size.lines - 2)], "..."]
        sys.stderr.write(redrawn(lines, before_count=self._lines_count, columns=size.columns))
        sys.stderr.flush()
        self._lines_count = len(lines)


_DONE = {
    EntryKind.COPY: "copied",
    EntryKind.CHANGES: "changed",
    EntryKind.REPLAY: "taken out of the quarantine",
}


class _EpochLines:
    """A line for each epoch, for people; what is said of a table is said once."""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}

    def __call__(self, done: EpochDone, job: SyncJob) -> None:
        sys.stderr.write("".join(f"{line}\n" for line in self.lines(done, job.state)))
        sys.stderr.flush()

    def lines(self, done: EpochDone, state: JobState) -> list[str]:
        """Give the epoch's line, and one for each table of which there is something new."""
        behind = ""
        if done.committed_ms is not None:
            late = max(0, Env.system().clock.now_ms() - done.committed_ms) / 1_000
            behind = f", {late:.1f} s after the source"
        now = {
            str(name): f"{one.phase} ({one.reason})"
            for name, one in state.tables.items()
            if one.phase is not Phase.LIVE
        }
        new = {name: text for name, text in now.items() if self._said.get(name) != text}
        new |= dict.fromkeys(self._said.keys() - now.keys(), "live again")
        self._said = now
        known = counted(len(now) - len(new.keys() & now.keys()), "table")
        still = "" if known.startswith("0 ") else f"; {known} not followed, as said"
        head = f"epoch {done.epoch}: {done.rows_count:,} rows {_DONE[done.kind]}{behind}{still}"
        return [head, *(f"    {name}: {text}" for name, text in new.items())]


def _json_line(done: EpochDone, job: SyncJob) -> None:
    """A JSON object for each epoch, for programs."""
    rows = {str(name): one.rows_count for name, one in job.state.tables.items()}
    document = {**asdict(done), "kind": str(done.kind), "rows_by_table": rows}
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def _plan(sync: Sync, as_json: bool) -> int:  # noqa: FBT001 - one of the verbs
    plan = sync.plan()
    sys.stdout.write(json.dumps(asdict(plan)) + "\n" if as_json else f"{plan}\n")
    return 0 if plan.can_run else FAILED


def _status(sync: Sync, as_json: bool) -> int:  # noqa: FBT001 - one of the verbs
    status = sync.status()
    sys.stdout.write(json.dumps(asdict(status)) + "\n" if as_json else f"{status}\n")
    return 0


def _slots(sync: Sync, as_json: bool) -> int:  # noqa: FBT001 - one of the verbs
    found = sync.slots()
    if as_json:
        sys.stdout.write(json.dumps([asdict(one) for one in found]) + "\n")
    else:
        for one in found:
            sys.stdout.write(f"{'FAIL' if one.problem else 'pass'}  {one}\n")
        if not found:
            sys.stdout.write("pass  the source keeps its log by age alone, for no reader\n")
    return FAILED if any(one.problem for one in found) else 0


def _epochs(sync: Sync, as_json: bool) -> int:  # noqa: FBT001 - one of the verbs
    for row in sync.epochs().to_pylist():
        row["begun"] = row["begun"].isoformat()
        row["snapshots"] = dict(row["snapshots"])
        if as_json:
            sys.stdout.write(json.dumps(row) + "\n")
            continue
        whole = {True: "whole", False: f"not whole: {row['note']}", None: "transactions unknown"}
        shown = " ".join(f"{name}@{number}" for name, number in row["snapshots"].items())
        sys.stdout.write(
            f"epoch {row['epoch']} ({row['kind']}) to {row['end']}, {whole[row['is_whole']]}:"
            f" {shown}\n"
        )
    return 0


def _replay(sync: Sync, table: str | None, *, as_json: bool) -> int:
    plan = sync.replay(table)
    if as_json:
        staying = [{**asdict(row), "why": why} for row, why in plan.staying]
        counts = {"fitting": len(plan.fitting), "outdated": len(plan.outdated)}
        sys.stdout.write(json.dumps({**counts, "staying": staying}) + "\n")
        return 0
    sys.stdout.write(f"{plan}\n")
    if plan.fitting or plan.outdated:
        sys.stdout.write("they are tried again when the job looks, or at its next start\n")
    return 0


def _drop(sync: Sync, as_json: bool) -> int:  # noqa: FBT001 - one of the verbs
    said = sync.drop()
    sys.stdout.write(json.dumps(said) + "\n" if as_json else "".join(f"{one}\n" for one in said))
    return 0


_VERBS: Mapping[str, Callable[[Sync, bool], int]] = {
    "plan": _plan,
    "status": _status,
    "slots": _slots,
    "epochs": _epochs,
    "drop": _drop,
}
