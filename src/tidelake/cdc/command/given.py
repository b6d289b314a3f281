"""Arguments as they were given: texts by name, read from words of a command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tidelake.cdc.command.argument import SYNC_COMMANDS, Argument, Shape, arguments_of
from tidelake.cdc.command.secret_text import shown_value
from tidelake.errors import InvalidInputError, near_names

Given = Mapping[str, tuple[str, ...]]
"""For each argument that is there its texts; of a flag none."""


def read_words(command: str, words: Sequence[str]) -> Given:
    """Read the words after a command: ``--name value``, ``--name=value``.

    Raises
    ------
    InvalidInputError
        An argument is unknown, lacks its value, or is given twice.

    Examples
    --------
    >>> read_words("mysql_sync_table", ["--primary-keys", "a", "--once"])
    {'primary_keys': ('a',), 'once': ()}
    """
    found: dict[str, list[str]] = {}
    rest, before = iter(words), command
    for word in rest:
        if not word.startswith("-") or word in {"-", "--"}:
            # the word is not repeated: it may be the end of a password with a space
            message = (
                f"A value stands alone after {before}: write --name value, and quote a value with"
                " spaces."
            )
            raise InvalidInputError(message, kind="cdc_argument")
        argument, value = _argument(command, word)
        before = argument.flag
        texts = found.setdefault(argument.name, [])
        if argument.shape is Shape.FLAG:
            if value is not None:
                raise wrong(argument.name, f"{argument.flag} takes no value: leave it out.")
            continue
        texts.append(_next(argument, rest) if value is None else value)
    return checked(command, {name: tuple(texts) for name, texts in found.items()})


def _next(argument: Argument, rest: Iterator[str]) -> str:
    value = next(rest, None)
    if value is None or value.startswith("--"):
        raise wrong(argument.name, f"{argument.flag} needs a value: {argument.value}.")
    return value


def _argument(command: str, word: str) -> tuple[Argument, str | None]:
    text, sign, value = word.partition("=")
    name = text.lstrip("-").replace("-", "_")
    return known_argument(command, name, shown=text), value if sign else None


def known_argument(command: str, name: str, *, shown: str) -> Argument:
    """Find an argument of a command.

    Raises
    ------
    InvalidInputError
        There is none; the message has near names, or the commands that have it.
    """
    known = arguments_of(command)
    if name in known:
        return known[name]
    others = [other for other in SYNC_COMMANDS if name in arguments_of(other)]
    if others:
        hint = f" It is of {', '.join(others)}."
    else:
        near = near_names(name, known)
        hint = near or f" Known: {', '.join(known)}."
    raise wrong(name, f"{command} has no argument '{shown}'.{hint}")


def checked(command: str, given: Given) -> Given:
    """Refuse an argument that is given twice and takes one value, and those that are missing.

    Raises
    ------
    InvalidInputError
        Of the first.
    """
    known = arguments_of(command)
    for name, texts in given.items():
        if len(texts) > 1 and not known[name].repeats:
            said = ", ".join(f"'{shown_value(name, text)}'" for text in texts)
            raise wrong(name, f"{known[name].flag} is given more than once ({said}): give it once.")
    return given


def check_required(command: str, given: Given) -> None:
    """Refuse a command that lacks what it needs.

    Raises
    ------
    InvalidInputError
        With all that is missing.
    """
    missing = [
        f"{a.flag} {a.value}"
        for a in arguments_of(command).values()
        if a.is_required and not given.get(a.name)
    ]
    if missing:
        message = f"{command} needs {', '.join(missing)}."
        raise InvalidInputError(message, kind="cdc_argument", command=command)


def wrong(name: str, message: str) -> InvalidInputError:
    """The error for an argument."""
    return InvalidInputError(message, kind="cdc_argument", option=name)
