"""Checks options: of a new table, for one use, of a catalog or session, and support.

Four checks:

- :func:`check_new_table`: did the user write what they meant? A bad value is an error with near
  names, and so is an unknown key that :func:`looks_like_option`. Any other key is the user's own
  property: it is stored and has no effect. The check runs on a user's input, never on options on
  disk.
- :func:`check_one_use`: would the option, set for one use, contradict the existing files?
- :func:`table_defaults`, :func:`session_options`: which options do a catalog's and a session's
  settings set for a table? The first two checks apply to them, too.
- :func:`check_supported`: would the result change if the option were ignored? The check runs before
  each create, read or write.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from typing import Any

from tidelake.errors import InvalidInputError, UnsupportedError, near_names, shortened
from tidelake.options import declared
from tidelake.options.declared import BY_KEY
from tidelake.options.derived import file_order_columns, merges_by_lookup
from tidelake.options.key_pattern import (
    AGGREGATE_FUNCTIONS,
    AGGREGATION_SETTINGS,
    CONSTRAINT_PREFIX,
    columns_in,
    pattern_of,
)
from tidelake.options.option import Action, Coverage, Option, Support
from tidelake.options.paimon2_options import paimon2_option_of
from tidelake.options.promises import check_promises
from tidelake.options.table_options import Options
from tidelake.options.user_options import option_text, option_texts

TABLE_DEFAULT = "table-default."
DOTS_OF_A_TABLE = 2

POSTPONE_BUCKETS = -2
CHECKED_MAX = 1000
"""Options of tables, for one use each, that a process remembers to have passed."""

MERGE_SETTINGS = tuple(f".{name}" for name in (*AGGREGATION_SETTINGS, "sequence-group"))

_BY_ALIAS = {alias: option for option in BY_KEY.values() for alias in option.fallback_keys}


def check_new_table(mapping: Mapping[str, object], *, table: str) -> None:
    """Check the options and properties that a user stores with a table.

    Parameters
    ----------
    mapping : mapping of str to str
        As given; refuses a value that is not a text, and shows the text to write.
    table : str
        The table's name, for messages.

    Raises
    ------
    InvalidInputError
        A key is unknown but looks like an option (the message suggests near names), or a value has
        the wrong type.

    Examples
    --------
    >>> check_new_table({"bucket": "4", "team.contact": "ada"}, table="db.t")
    >>> check_new_table({"bukcet": "4"}, table="db.t")
    Traceback (most recent call last):
    tidelake.errors.InvalidInputError: Table db.t: unknown option 'bukcet'. Did you mean ...
    """
    _check_texts(mapping, table, own_properties=True)


def _check_texts(mapping: Mapping[str, object], table: str, *, own_properties: bool) -> None:
    texts: dict[str, str] = {}
    for key, value in mapping.items():
        if not isinstance(value, str):
            message = (
                f"Table {table}: option '{key}' has the value {shortened(repr(value))}, but values"
                f" are texts: write '{key}': '{shortened(option_text(value))}'."
            )
            raise InvalidInputError(message, kind="option_value", option=key, table=table)
        texts[key] = value
        _check_key(key, table, own_properties=own_properties)
        _check_aggregate(key, value, table)
    check_promises(texts, table=table)
    Options.parse(texts, table=table)


def is_option(key: str) -> bool:
    """Whether a key is a current or older name of a table option.

    Examples
    --------
    >>> is_option("write-only"), is_option("versionAsOf")
    (True, False)
    """
    return bool(key in BY_KEY or key in _BY_ALIAS or pattern_of(key) or paimon2_option_of(key))


NEAR_BY_LENGTH = ((8, 2), (4, 1))
"""Length of a key, and the most letters by which a misspelt one differs."""
NAMESPACE_LENGTH_MIN = 5
_OF_WORDS = re.compile(r"[.\-_]")


def looks_like_option(key: str) -> bool:
    """Whether an unknown key was probably meant as an option.

    It was if one of these holds, without regard to case:

    1. Without dots, dashes and underscores it differs from an option's key by at most one letter
       (added, omitted, changed, or two swapped), or by two in a key of eight letters or more.
    2. The part before its first dot is that of an option (``scan``, ``write``, ``snapshot``,
       ``fields``), or differs from it by one letter.
    3. All its words are words of options: ``snapshot-count``.

    Examples
    --------
    >>> keys = ("bukcet", "mergeEngine", "scan.snapshots", "snapshot-count", "feilds.v.function")
    >>> [looks_like_option(key) for key in keys]
    [True, True, True, True, True]
    >>> [looks_like_option(key) for key in ("team.contact", "cost-center", "delta.appendOnly")]
    [False, False, False]
    """
    if _is_near_a_key(key):
        return True
    lowered = key.lower()
    first, dot, _ = lowered.partition(".")
    may_differ = int(len(first) >= NAMESPACE_LENGTH_MIN)
    if dot and any(_differs_by(first, known, may_differ) for known in _namespaces()):
        return True
    return set(filter(None, _OF_WORDS.split(lowered))) <= _words_of_keys()


def _is_misspelt(key: str) -> bool:
    """Whether a key that only a connector of Java's may have is near one of ours."""
    if key in BY_KEY or key in _BY_ALIAS or paimon2_option_of(key):
        return False
    family = pattern_of(key)
    return family is not None and family.is_of_connectors and _is_near_a_key(key)


def _is_near_a_key(key: str) -> bool:
    letters = _OF_WORDS.sub("", key.lower())
    differs_max = next((n for length, n in NEAR_BY_LENGTH if len(letters) >= length), 0)
    return any(_differs_by(letters, known, differs_max) for known in _letters_of_keys())


@cache
def _letters_of_keys() -> frozenset[str]:
    return frozenset(_OF_WORDS.sub("", key).lower() for key in (*BY_KEY, *_BY_ALIAS))


@cache
def _namespaces() -> frozenset[str]:
    keys = (*BY_KEY, *_BY_ALIAS, CONSTRAINT_PREFIX)
    return frozenset(key.partition(".")[0] for key in keys if "." in key)


@cache
def _words_of_keys() -> frozenset[str]:
    return frozenset(word for key in (*BY_KEY, *_BY_ALIAS) for word in _OF_WORDS.split(key))


def _differs_by(one: str, other: str, most: int) -> bool:
    """Whether texts differ by at most this many letters: added, omitted, changed or swapped."""
    if abs(len(one) - len(other)) > most:
        return False
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        two_before, before, row = before, row, [i]
        for j, b in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and b == one[i - 2]:
                cost = min(cost, two_before[j - 2] + 1)
            row.append(cost)
        if min(row) > most:
            return False
    return row[-1] <= most


def _check_key(key: str, table: str, *, own_properties: bool = False) -> None:
    if is_option(key) and not _is_misspelt(key):
        return
    if own_properties and key and not looks_like_option(key):
        return
    message = (
        f"Table {table}: unknown option '{shortened(key)}'.{near_names(key, _keys_like(key))}"
        " docs/options.md lists every option."
    )
    if own_properties:
        message += (
            f" Your own property needs a name unlike any option's, such as 'my.{shortened(key)}'."
        )
    raise InvalidInputError(message, kind="unknown_option", option=key, table=table)


def _keys_like(key: str) -> Iterable[str]:
    """List the keys that a misspelt one may mean: those of its column, if it names one."""
    column, _, setting = key.rpartition(".")
    settings = [s for s in (*MERGE_SETTINGS, ".stats-mode") if near_names(setting, [s[1:]])]
    if column.startswith("fields.") and settings:
        return [f"{column}{near}" for near in settings]
    return BY_KEY


def _check_aggregate(key: str, value: str, table: str) -> None:
    names_one = key == declared.FIELDS_DEFAULT_AGGREGATE_FUNCTION.key or (
        columns_in(key) is not None and key.endswith(".aggregate-function")
    )
    if names_one and value not in AGGREGATE_FUNCTIONS:
        message = (
            f"Table {table}: option '{shortened(key)}' is '{shortened(value)}', which is not an"
            f" aggregate function.{near_names(value, AGGREGATE_FUNCTIONS)} Use one of"
            f" {', '.join(AGGREGATE_FUNCTIONS)}."
        )
        raise InvalidInputError(message, kind="option_value", option=key, table=table)


def check_one_use(mapping: Mapping[str, object], current: Options, *, table: str) -> Options:
    """Check options for one use of a table, and return the table's options with them.

    Parameters
    ----------
    mapping : mapping
        The options for this use, under their keys or older ones; None unsets one.

    Raises
    ------
    InvalidInputError
        See :func:`check_new_table`. Or an option defines the layout of files or the newest row of a
        key, and the files were written with another value.
    """
    texts = option_texts(mapping)
    _check_texts(texts, table, own_properties=False)
    names = [str(key) for key in mapping]
    for key in names:
        _check_key(key, table)
    kept = {key: value for key, value in current.raw.items() if key not in names}
    updated = Options.parse({**kept, **texts}, table=current.table)
    for key in names:
        if key.startswith(CONSTRAINT_PREFIX) and updated.raw.get(key) != current.raw.get(key):
            message = (
                f"Option '{key}' of table '{table}' is a constraint, which holds for every write"
                " and cannot be set for one use: set or reset it in the table."
            )
            raise InvalidInputError(message, kind="option_fixed", option=key, table=table)
        option = BY_KEY.get(key) or _BY_ALIAS.get(key)
        merges = key.endswith(MERGE_SETTINGS) and columns_in(key) is not None
        if merges and updated.raw.get(key) != current.raw.get(key):
            raise _fixed(key, table)
        if option is None or (option.mutable and option is not declared.BUCKET):
            continue
        if updated.get(option) != current.get(option):
            raise _fixed(key, table)
    for what in (file_order_columns, merges_by_lookup):  # of options that are not fixed elsewhere
        if names and what(updated) != what(current):
            deciding = {declared.CLUSTERING_COLUMNS, declared.CHANGELOG_PRODUCER}
            given = (k for k in names if (BY_KEY.get(k) or _BY_ALIAS.get(k)) in deciding)
            raise _fixed(next(given), table)
    return updated


def _fixed(key: str, table: str) -> InvalidInputError:
    message = (
        f"Option '{key}' of table '{table}' defines how files are laid out or merged and cannot be"
        " set for one use: make a new table with it."
    )
    return InvalidInputError(message, kind="option_fixed", option=key, table=table)


def table_defaults(mapping: Mapping[str, object]) -> dict[str, str]:
    """Find the defaults for new tables in a catalog's options: ``table-default.<option>``.

    Raises
    ------
    InvalidInputError
        A key is no such default, names no option, or has a wrong value.

    Examples
    --------
    >>> table_defaults({"table-default.bucket": 4})
    {'bucket': '4'}
    """
    defaults: dict[str, object] = {}
    for key, value in mapping.items():
        if not str(key).startswith(TABLE_DEFAULT):
            message = (
                f"Unknown catalog option '{shortened(str(key))}': a catalog takes"
                f" '{TABLE_DEFAULT}<option>', a default for new tables that do not set the option"
                " themselves."
            )
            raise InvalidInputError(message, kind="unknown_option", option=str(key))
        defaults[str(key).removeprefix(TABLE_DEFAULT)] = value
    texts = option_texts(defaults)
    _check_texts(texts, "(new)", own_properties=False)
    return texts


def session_options(conf: Mapping[str, str], *, prefix: str, table: str) -> dict[str, str]:
    """Find the options that a session sets for all tables, or for this one by name.

    Parameters
    ----------
    conf : mapping of str to str
        The session's settings; those without `prefix` are ignored.
    prefix : str
        Prefix of the keys: ``<prefix><option>`` is for every table,
        ``<prefix><database>.<table>.<option>`` for one table and wins.

    Raises
    ------
    InvalidInputError
        A key names no option, neither alone nor behind a table's name.

    Examples
    --------
    >>> conf = {"x.write-only": "true", "x.db.t.write-only": "false", "y": "1"}
    >>> session_options(conf, prefix="x.", table="db.t")
    {'write-only': 'false'}
    """
    for_all: dict[str, str] = {}
    for_one: dict[str, str] = {}
    for key, value in conf.items():
        if not key.startswith(prefix):
            continue
        name = key.removeprefix(prefix)
        own = name.removeprefix(f"{table}.")
        behind_a_table = name.split(".", 2)[-1]
        if own != name:
            for_one[own] = value
        elif is_option(name):
            for_all[name] = value
        elif not (name.count(".") >= DOTS_OF_A_TABLE and is_option(behind_a_table)):
            message = (
                f"Setting '{shortened(key)}' of the session does not name a table option."
                f"{near_names(name, BY_KEY)} Write '{prefix}<option>', or"
                f" '{prefix}<database>.<table>.<option>' for one table."
            )
            raise InvalidInputError(message, kind="unknown_option", option=key)
    return {**for_all, **for_one}


@lru_cache(CHECKED_MAX)
def check_supported(
    options: Options,
    *,
    table: str,
    has_primary_key: bool,
    action: Action,
) -> None:
    """Refuse options that would change the result and that this version does not cover.

    Options are frozen: those that passed are not looked at again.

    Parameters
    ----------
    options : Options
        The table's options with those of this read or write.
    table : str
        The table's name, for messages.
    has_primary_key : bool
        Whether it is a primary-key table.
    action : {"create", "read", "write"}
        What the caller will do with the table.

    Raises
    ------
    UnsupportedError
        An option's value is valid in Paimon but not covered; the message says what to do.
    InvalidInputError
        The buckets of an append table have no key, or the most snapshots or changelogs to keep are
        fewer than the least.

    Examples
    --------
    >>> options = Options.parse({"data-evolution.enabled": "true"})
    >>> check_supported(options, table="db.t", has_primary_key=False, action="write")
    Traceback (most recent call last):
    tidelake.errors.UnsupportedError: Table db.t: option 'data-evolution.enabled' = 'true' ...
    """
    _check_buckets(options, table=table, has_primary_key=has_primary_key, action=action)
    if action == "create":
        check_write_mode(options, table=table, has_primary_key=has_primary_key)
    if action != "read":
        _check_retentions(options, table=table)
    for key, value in options.values.items():
        option = BY_KEY[key]
        if _is_refused(option.coverage, has_primary_key=has_primary_key, action=action):
            neutral = (option.default, "", *option.coverage.accepted)
            folded = value.lower() if isinstance(value, str) else value  # words match in any case
            if value not in neutral and folded not in neutral and value != {}:
                _refuse(table, key, _given(options, option), option.reason)
    for key, given in options.raw.items():
        if key in BY_KEY:
            continue
        later = paimon2_option_of(key)
        if later and action in later.actions and given.lower() != later.neutral:
            _refuse(table, key, given, later.reason)
        pattern = pattern_of(key)
        if (
            pattern
            and given.lower() not in pattern.coverage.accepted
            and _is_refused(pattern.coverage, has_primary_key=has_primary_key, action=action)
        ):
            _refuse(table, key, given, pattern.coverage.reason)


def _is_refused(coverage: Coverage, *, has_primary_key: bool, action: Action) -> bool:
    if coverage.support not in (Support.REFUSED, Support.PARTLY):
        return False
    kind = "primary_key" if has_primary_key else "append"
    return action in coverage.actions and coverage.tables in ("any", kind)


def _given(options: Options, option: Option[Any]) -> str:
    for key in (option.key, *option.fallback_keys):
        if key in options.raw:
            return options.raw[key]
    return str(options.get(option))


def _refuse(table: str, key: str, given: str, reason: str) -> None:
    message = f"Table {table}: option '{key}' = '{shortened(given)}' is refused: {reason}."
    raise UnsupportedError(message, kind="option_unsupported", option=key, table=table)


def check_write_mode(options: Options, *, table: str, has_primary_key: bool) -> None:
    """Refuse a ``write-mode`` that the primary key contradicts.

    The check runs when a table is created or altered; for an existing table only the key counts.

    Raises
    ------
    InvalidInputError
        The mode is append-only with a primary key, or change-log without one.

    Examples
    --------
    >>> options = Options.parse({"write-mode": "append-only"})
    >>> check_write_mode(options, table="db.t", has_primary_key=False)
    """
    mode = options.get(declared.WRITE_MODE)
    if mode == "append-only" and has_primary_key:
        message = (
            f"Table {table}: option 'write-mode' is 'append-only', which only adds rows, but the"
            " table has a primary key, which replaces rows: leave out one of the two."
        )
    elif mode == "change-log" and not has_primary_key:
        message = (
            f"Table {table}: option 'write-mode' is 'change-log', which merges rows by their"
            " primary key, but the table has none: give it a PRIMARY KEY, or use 'append-only'."
        )
    else:
        return
    raise InvalidInputError(message, kind="option_value", option="write-mode", table=table)


def _check_buckets(options: Options, *, table: str, has_primary_key: bool, action: Action) -> None:
    buckets = options.get(declared.BUCKET)
    if buckets == POSTPONE_BUCKETS and not has_primary_key:
        message = (
            f"Table {table}: option 'bucket' is '-2', the postpone bucket, which needs a primary"
            " key: leave it at '-1', or give a number and 'bucket-key'."
        )
        raise InvalidInputError(message, kind="option_value", option="bucket", table=table)
    if buckets == 0:
        message = f"Table {table}: option 'bucket' is '0'; give at least '1'."
        raise InvalidInputError(message, kind="option_value", option="bucket", table=table)
    if (
        not has_primary_key
        and buckets > 0
        and not options.get(declared.BUCKET_KEY)
        and action != "read"
    ):
        message = (
            f"Table {table}: an append table with {buckets} buckets needs the option 'bucket-key'"
            " (columns that decide a row's bucket); give it, or leave 'bucket' at '-1'."
        )
        raise InvalidInputError(message, kind="option_value", option="bucket-key", table=table)


def _check_retentions(options: Options, *, table: str) -> None:
    least = options.get(declared.SNAPSHOT_NUM_RETAINED_MIN)
    most = options.get(declared.SNAPSHOT_NUM_RETAINED_MAX)
    check_retained("snapshot", least, most, table=table)
    told_least = options.get(declared.CHANGELOG_NUM_RETAINED_MIN)
    told_most = options.get(declared.CHANGELOG_NUM_RETAINED_MAX)
    least = least if told_least is None else told_least
    most = most if told_most is None else told_most
    check_retained("changelog", least, most, table=table)


def check_retained(what: str, least: int, most: int, *, table: str) -> None:
    """Refuse numbers of snapshots or changelogs to keep that contradict each other.

    Parameters
    ----------
    what : str
        ``"snapshot"`` or ``"changelog"``.
    least, most : int
        The least and the most number to keep.

    Raises
    ------
    InvalidInputError
        The most is below the least, or nothing would be kept.

    Examples
    --------
    >>> check_retained("snapshot", 10, 5, table="db.t")
    Traceback (most recent call last):
    tidelake.errors.InvalidInputError: Table db.t: at most 5 snapshots would be kept, but at ...
    """
    lower, upper = f"{what}.num-retained.min", f"{what}.num-retained.max"
    if least < 1:
        message = f"Table {table}: '{lower}' is {least} but must be at least 1."
        raise InvalidInputError(message, kind="retention", option=lower, table=table)
    if most < least:
        message = (
            f"Table {table}: at most {most} {what}s would be kept, but at least {least}: set both"
            f" '{lower}' and '{upper}', the first not above the second."
        )
        raise InvalidInputError(message, kind="retention", option=upper, table=table)
