"""A job as a TOML file: the same arguments under the same names, and the command's.

``command = "mysql_sync_table"``, then a key for each argument. Pairs are tables
(``[mysql_conf]``), lists are arrays. A key with dots needs no quotes: ``slot.name = "s"``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from tidelake.cdc.command.argument import SYNC_COMMANDS, Argument, Shape, arguments_of
from tidelake.cdc.command.given import Given, checked, known_argument, wrong
from tidelake.cdc.command.secret_text import shown_value
from tidelake.errors import InvalidInputError, near_names

COMMAND = "command"
_PLAIN = (str, int, float, bool)


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
    given: dict[str, tuple[str, ...]] = {}
    for key, value in document.items():
        argument = known_argument(command, key.replace("-", "_"), shown=key)
        if argument.name in given:
            raise wrong(argument.name, f"{path} gives '{argument.name}' more than once.")
        texts = _texts(argument, value)
        if texts is not None:
            given[argument.name] = texts
    return command, checked(command, given)


def _texts(argument: Argument, value: object) -> tuple[str, ...] | None:
    """The texts of a value; None for a flag that is off."""
    name = argument.name
    if argument.shape is Shape.FLAG:
        if not isinstance(value, bool):
            raise wrong(name, f"'{name}' is true or false.")
        return () if value else None
    if argument.shape in {Shape.PAIRS, Shape.LISTS}:
        if not isinstance(value, dict):
            raise wrong(name, f"'{name}' is a table: write [{name}], then key = value.")
        return tuple(f"{key}={_joined(name, key, part)}" for key, part in _flat(value))
    if argument.shape in {Shape.NAMES, Shape.TEXTS} and isinstance(value, list):
        return tuple(_plain(name, part) for part in value)
    return (_plain(name, value),)


def _flat(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, object]]:
    """The keys of a table with those of tables inside it: ``a.b = 1`` is a table in a table."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{key}.")
        else:
            yield before + key, value


def _joined(name: str, key: str, value: object) -> str:
    if isinstance(value, list):
        return ",".join(_plain(f"{name}.{key}", part) for part in value)
    return _plain(f"{name}.{key}", value)


def _plain(name: str, value: object) -> str:
    if not isinstance(value, _PLAIN):
        raise wrong(name, f"'{name}' is a text, a number, true or false.")
    return str(value).lower() if isinstance(value, bool) else str(value)


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
