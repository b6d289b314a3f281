"""A job as a TOML file: the same arguments under the same names, and the command's.

``command = "mysql_sync_table"``, then a key for each argument. Pairs are tables
(``[mysql_conf]``), lists are arrays. A key with dots needs no quotes: ``slot.name = "s"``.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from tidelake.cdc.command.argument import SYNC_COMMANDS, Shape, arguments_of
from tidelake.cdc.command.given import Given
from tidelake.cdc.command.secret_text import shown_value
from tidelake.cdc.command.values import given_of
from tidelake.errors import InvalidInputError, near_names

COMMAND = "command"


def read_job(text: str, *, path: str = "the job file") -> tuple[str, Given]:
    """Read a file's text: its command, and the arguments as a command line gives them.

    Raises
    ------
    InvalidInputError
        It is no TOML, or a key is unknown or of the wrong form; the message has near names.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        message = f"{path} is not TOML: {error}."
        raise InvalidInputError(message, kind="cdc_job_file", path=path) from error
    command = document.pop(COMMAND, None)
    if command not in SYNC_COMMANDS:
        said = f"has no command '{command}'" if command is not None else f"needs a '{COMMAND}'"
        hint = near_names(str(command), SYNC_COMMANDS) or f" Known: {', '.join(SYNC_COMMANDS)}."
        raise InvalidInputError(f"{path} {said}.{hint}", kind="cdc_job_file", path=path)
    return command, given_of(command, document)


def read_job_file(path: str | Path) -> tuple[str, Given]:
    """Read a file; see :func:`read_job`.

    Raises
    ------
    InvalidInputError
        There is no such file, or it is no job.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        message = f"The job file {path} cannot be read: {error}."
        raise InvalidInputError(message, kind="cdc_job_file", path=str(path)) from error
    return read_job(text, path=str(path))


def job_text(command: str, given: Given) -> str:
    """Write a job as a file's text, without secrets, for people: ``***`` stands for one.

    Of a job without secrets it is a file of the same job.
    """
    lines, tables = [f"{COMMAND} = {_quoted(command)}"], []
    for name, argument in arguments_of(command).items():
        texts = given.get(name)
        if texts is None:
            continue
        if argument.shape in {Shape.PAIRS, Shape.LISTS}:
            tables += ["", f"[{name}]", *(_pair(text) for text in texts)]
        elif argument.shape is Shape.FLAG:
            lines.append(f"{name} = true")
        elif len(texts) > 1 or argument.shape is Shape.TEXTS:
            lines.append(f"{name} = [{', '.join(map(_quoted, texts))}]")
        else:
            lines.append(f"{name} = {_quoted(shown_value(name, texts[0]))}")
    return "\n".join([*lines, *tables, ""])


def _pair(text: str) -> str:
    key, _, value = (part.strip() for part in text.partition("="))
    return f"{_quoted(key)} = {_quoted(shown_value(key, value))}"


def _quoted(text: str) -> str:
    """A basic string of TOML."""
    shown = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in shown) + '"'
