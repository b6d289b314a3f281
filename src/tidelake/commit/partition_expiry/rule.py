"""The options of partition expiry as one value, and the check of what a user sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tidelake.commit.partition_expiry.extraction import formatter_of, names_a_column
from tidelake.errors import InvalidInputError, UnsupportedError, shortened
from tidelake.options import Option, Options, declared, warn_once
from tidelake.types import TableSchema, TypeRoot
from tidelake.types.java_time import TimeFormatter, TimePatternError

VALUES_TIME, UPDATE_TIME = "values-time", "update-time"
_TIMELESS = frozenset({TypeRoot.DATE, TypeRoot.BOOLEAN, TypeRoot.FLOAT, TypeRoot.DOUBLE})
"""Types whose texts are no time, of whatever format."""
_CHECKED: tuple[Option[Any], ...] = (
    declared.PARTITION_EXPIRATION_TIME,
    declared.PARTITION_EXPIRATION_STRATEGY,
    declared.PARTITION_TIMESTAMP_FORMATTER,
    declared.PARTITION_TIMESTAMP_PATTERN,
)


@dataclass(frozen=True, slots=True)
class ExpiryRule:
    """Which partitions are too old.

    Parameters
    ----------
    age_ms : int
        The age from which on a partition is dropped.
    by_values : bool
        Whether the age counts from the time that its values say, else from its newest file.
    pattern : str, optional
        Text of the time, made of the columns.
    formatter : TimeFormatter
        How the text is read.
    count_max : int
        How many to drop at a time, at most.
    batch_size : int, optional
        How many to drop in one commit, at most.
    """

    age_ms: int
    by_values: bool
    pattern: str | None
    formatter: TimeFormatter
    count_max: int
    batch_size: int | None

    @classmethod
    def of(cls, options: Options, *, table: str) -> ExpiryRule | None:
        """The rule of a table; None where its partitions do not expire.

        Raises
        ------
        InvalidInputError
            The formatter is none of Java's.
        UnsupportedError
            The strategy is a Java class.
        """
        age_ms = options.get(declared.PARTITION_EXPIRATION_TIME)
        if age_ms is None:
            return None
        strategy = options.get(declared.PARTITION_EXPIRATION_STRATEGY)
        if strategy not in {VALUES_TIME, UPDATE_TIME}:
            message = (
                f"Table '{table}': 'partition.expiration-strategy' = '{strategy}' is a Java class,"
                " which cannot run here: set it to 'values-time' or 'update-time'."
            )
            raise UnsupportedError(message, kind="option_value", table=table)
        return cls(
            age_ms,
            strategy == VALUES_TIME,
            options.get(declared.PARTITION_TIMESTAMP_PATTERN),
            time_formatter(options, table),
            options.get(declared.PARTITION_EXPIRATION_MAX_NUM),
            options.get(declared.PARTITION_EXPIRATION_BATCH_SIZE),
        )


def time_formatter(options: Options, table: str) -> TimeFormatter:
    """The format of a table's partition times.

    Raises
    ------
    InvalidInputError
        It is none of Java's, or has no date.
    """
    pattern = options.get(declared.PARTITION_TIMESTAMP_FORMATTER)
    try:
        formatter = formatter_of(pattern)
    except TimePatternError as error:
        raise _wrong_formatter(str(pattern), str(error), table) from error
    if not formatter.has_date:
        raise _wrong_formatter(str(pattern), "it has no year, month and day", table)
    return formatter


def _wrong_formatter(pattern: str, why: str, table: str) -> InvalidInputError:
    message = (
        f"Table {table}: option 'partition.timestamp-formatter' is '{shortened(pattern)}' but must"
        f" be a format of times such as 'yyyy-MM-dd HH:mm:ss': {why}."
    )
    key = "partition.timestamp-formatter"
    return InvalidInputError(message, kind="option_value", option=key, table=table)


def check_partition_expiry(
    schema: TableSchema, options: Options, *, table: str, before: Options | None = None
) -> None:
    """Refuse options by which no partition could ever be found too old.

    Parameters
    ----------
    before : Options, optional
        The table's until now: what it had already is not refused.

    Raises
    ------
    InvalidInputError
        The formatter is none of Java's or has no date, the pattern names no partition column, or
        an age has no unit.
    UnsupportedError
        The strategy is a Java class.
    """
    if before is not None and all(options.get(o) == before.get(o) for o in _CHECKED):
        return
    time_formatter(options, table)
    pattern = options.get(declared.PARTITION_TIMESTAMP_PATTERN)
    keys = schema.partition_keys
    if pattern is not None and not (
        names_a_column(pattern, list(keys)) if keys else "$" in pattern
    ):
        known = f": its partition columns are {', '.join(keys)}" if keys else ""
        message = (
            f"Table {table}: option 'partition.timestamp-pattern' is '{shortened(pattern)}' but"
            f" must be a text with columns such as '$dt $hour:00:00'{known}."
        )
        key = "partition.timestamp-pattern"
        raise InvalidInputError(message, kind="option_value", option=key, table=table)
    rule = ExpiryRule.of(options, table=table)
    if rule is None:
        return
    given = options.raw.get("partition.expiration-time", "")
    if given.strip().isdecimal() and int(given):
        message = (
            f"Table {table}: option 'partition.expiration-time' is '{given}', which would be"
            f" milliseconds: write the unit, as in '{given} d'."
        )
        key = "partition.expiration-time"
        raise InvalidInputError(message, kind="option_value", option=key, table=table)
    _warn_of_no_effect(schema, rule, table)


def _warn_of_no_effect(schema: TableSchema, rule: ExpiryRule, table: str) -> None:
    keys = schema.partition_keys
    if not keys:
        warn_once(table, "'partition.expiration-time' has no effect: it has no partitions.")
    elif rule.by_values and _is_timeless(schema, keys, rule.pattern):
        text = (
            f"no partition will expire: the values of {', '.join(keys)} are no times, as"
            " 'partition.expiration-strategy' = 'values-time' needs (a DATE is a number of days):"
            " use 'update-time', or a STRING column."
        )
        warn_once(table, text)


def _is_timeless(schema: TableSchema, keys: Sequence[str], pattern: str | None) -> bool:
    """Whether the time's text is made of values that are no times."""
    named = keys[:1] if pattern is None else keys
    return all(schema.field(name).type.root in _TIMELESS for name in named)
