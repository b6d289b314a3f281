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

from tidelake.cdc.command.argument import SYNC_COMMANDS, Argument, arguments_of
from tidelake.cdc.command.figures import JobFigures, SyncProgress
from tidelake.cdc.command.given import Given, read_words
from tidelake.cdc.command.job_file import read_job
from tidelake.cdc.command.metrics import JobMetrics
from tidelake.cdc.command.secret_text import SecretWays
from tidelake.cdc.command.sync import Sync
from tidelake.cdc.command.sync_config import config_of
from tidelake.cdc.job.job import EpochDone, SyncJob
from tidelake.cdc.journal.entry import EntryKind
from tidelake.cli.arguments import CdcArguments
from tidelake.cli.declaration import CDC_VERBS, PROGRAM
from tidelake.cli.output.sync_view import redrawn, sync_lines
from tidelake.engine.env import Env
from tidelake.errors import InvalidInputError, TidelakeError, near_names

FAILED, USAGE, INTERRUPTED = 1, 2, 130
ARGUMENT_KINDS = frozenset({"cdc_argument", "cdc_command", "cdc_job_file", "option_key"})
JSON = "--json"
METRICS = "--metrics-port"
PORT_MAX = 65_535


def run(arguments: CdcArguments) -> int:
    """Run the command and return the exit code."""
    words = list(arguments.words)
    as_json = JSON in words
    words = [word for word in words if word != JSON]
    if not words or words[0] in {"-h", "--help"}:
        sys.stdout.write(_help())
        return 0
    if len(words) > 1 and words[0] in SYNC_COMMANDS and words[1] in {"-h", "--help"}:
        sys.stdout.write(_help_of(words[0]))
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
        try:
            sync.run(watch=_json_line if as_json else None if is_live else _line)
        except KeyboardInterrupt:
            sys.stderr.write(f"job {sync.name} stopped; it goes on where it was\n")
            return INTERRUPTED
    return 0


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


def _line(done: EpochDone, job: SyncJob) -> None:
    """A line for each epoch, for people."""
    behind = ""
    if done.committed_ms is not None:
        late = max(0, Env.system().clock.now_ms() - done.committed_ms) / 1_000
        behind = f", {late:.1f} s after the source"
    word = _DONE[done.kind]
    sys.stderr.write(f"epoch {done.epoch}: {done.rows_count:,} rows {word}{behind}\n")
    waiting = [
        f"{name}: {one.phase} ({one.reason})"
        for name, one in job.state.tables.items()
        if one.phase != "live"
    ]
    for text in waiting:
        sys.stderr.write(f"    {text}\n")
    sys.stderr.flush()


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
    "epochs": _epochs,
    "drop": _drop,
}


# ---- help


def _help() -> str:
    lines = [
        f"usage: {PROGRAM} cdc COMMAND --name value ...",
        f"       {PROGRAM} cdc VERB (job.toml | COMMAND --name value ...)",
        "",
        "Keep tables equal to those of a database.",
        "",
        "commands:",
        *(f"  {name}" for name in SYNC_COMMANDS),
        "",
        "verbs:",
        *(f"  {name:<12}{what}" for name, what in CDC_VERBS.items()),
        "",
        f"'{PROGRAM} cdc COMMAND --help' lists a command's arguments. --json writes JSON lines.",
        f"{METRICS} PORT answers GET /metrics of Prometheus while a job runs.",
        "",
    ]
    return "\n".join(lines)


def _help_of(command: str) -> str:
    lines = [f"usage: {PROGRAM} cdc {command} --name value ...", ""]
    for argument in arguments_of(command).values():
        value = "" if argument.shape.name == "FLAG" else f" {argument.value}"
        lines.append(f"  {argument.flag}{value}")
        lines.append(f"      {_words(argument)}")
    return "\n".join([*lines, ""])


def _words(argument: Argument) -> str:
    words = argument.what.replace("`", "")
    if argument.is_required:
        words += " Required."
    if argument.choices:
        words += f" One of {', '.join(argument.choices)}."
    if argument.default is not None:
        words += f" Default: {argument.default}."
    return words
