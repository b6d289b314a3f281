"""The help of ``tidelake cdc``, of its commands and of its verbs."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

from tidelake.cdc.door import (
    SYNC_COMMANDS,
    Argument,
    arguments_of,
)
from tidelake.cli.command_line.flag import PROGRAM
from tidelake.cli.declaration import CDC_VERBS

METRICS = "--metrics-port"
COLUMNS = 88
INDENT = " " * 6
JOB = (
    "job.toml | COMMAND --name value ...",
    "The job: its file, or the command and the arguments with which it runs.",
)
_JSON = ("--json", "Write JSON, a document in each line.")
_TABLE = (
    "TABLE",
    "A table as `status` names it, such as shop.public.orders, or its target, such as ods.orders.",
)


@dataclass(frozen=True, slots=True)
class VerbHelp:
    """The help of a verb, besides its line in :data:`CDC_VERBS`.

    Parameters
    ----------
    what : str
        Further sentences.
    arguments, options : tuple of tuple of str
        Before and after the job: a name and what it is.
    """

    usage: str
    example: str
    what: str = ""
    arguments: tuple[tuple[str, str], ...] = ()
    options: tuple[tuple[str, str], ...] = (_JSON,)


VERBS = {
    "run": VerbHelp(
        "job.toml [--once] [--json] [--metrics-port PORT]",
        "job.toml --once",
        (
            "A new job copies its tables first. Ctrl-C and SIGTERM stop it; the next run goes on"
            " where it was, also on another machine."
        ),
        options=(
            ("--once", "End when all is applied that the source had at the start: for cron."),
            ("--json", "Write a JSON object for each epoch on the output."),
            (f"{METRICS} PORT", "Answer GET /metrics of Prometheus on 127.0.0.1."),
        ),
    ),
    "plan": VerbHelp(
        "(job.toml | COMMAND --name value ...) [--json]",
        "job.toml",
        (
            "Lists each table with its columns, errors with the statement that mends them, and"
            " notes of what the job does by itself. The exit code is 1 if the job cannot run."
        ),
    ),
    "status": VerbHelp(
        "(job.toml | COMMAND --name value ...) [--json]",
        "job.toml",
        (
            "Reads the journal and asks the source; a running job goes on. Lists the positions,"
            " rows by table, tables that are not followed with the reason, and rows in the"
            " quarantine."
        ),
    ),
    "slots": VerbHelp(
        "(job.toml | COMMAND --name value ...) [--json]",
        "job.toml",
        "Lists those of all programs, the job's first, with what is wrong and the statement that"
        " mends it. MySQL and Kafka have none.",
    ),
    "epochs": VerbHelp(
        "(job.toml | COMMAND --name value ...) [--json]",
        "job.toml",
        "A whole epoch ends between two transactions of the source.",
    ),
    "resnapshot": VerbHelp(
        "TABLE (job.toml | COMMAND --name value ...)",
        "ods.orders job.toml",
        (
            "Leaves a request, which the job takes up when it looks, or at its next start. Tables"
            " that share the target are copied with it."
        ),
        (_TABLE,),
        (),
    ),
    "replay": VerbHelp(
        "[TABLE] (job.toml | COMMAND --name value ...) [--json]",
        "ods.orders job.toml",
        (
            "Says what becomes of each row, and leaves a request, which the job takes up when it"
            " looks, or at its next start. A row older than what is applied of its key is not"
            " applied."
        ),
        ((_TABLE[0], f"{_TABLE[1]} By default rows of all tables."),),
    ),
    "drop": VerbHelp(
        "(job.toml | COMMAND --name value ...) [--json]",
        "job.toml",
        "Stop the job first. A new job of the same name copies the tables again.",
    ),
}


def help_of_all() -> str:
    """Say what the command does, with its commands and verbs."""
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
        f"'{PROGRAM} cdc COMMAND --help' lists a command's arguments,",
        f"'{PROGRAM} cdc VERB --help' says more of a verb. --json writes JSON lines.",
        f"{METRICS} PORT answers GET /metrics of Prometheus while a job runs.",
        "",
    ]
    return "\n".join(lines)


def help_of_verb(verb: str) -> str:
    """Say what a verb does, its arguments and an example."""
    found = VERBS[verb]
    what = textwrap.wrap(f"{CDC_VERBS[verb]} {found.what}", COLUMNS)
    lines = [f"usage: {PROGRAM} cdc {verb} {found.usage}", "", *what, "", "arguments:"]
    for name, text in (*found.arguments, JOB, *found.options):
        lines += [
            f"  {name}",
            *textwrap.wrap(text, COLUMNS, initial_indent=INDENT, subsequent_indent=INDENT),
        ]
    return "\n".join([*lines, "", "example:", f"  {PROGRAM} cdc {verb} {found.example}", ""])


def help_of_command(command: str) -> str:
    """Say a command's arguments."""
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
