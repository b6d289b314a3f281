"""The time that the values of a partition say.

Without ``partition.timestamp-pattern`` the first column is the time. With it the time's text is the
pattern, where ``$name`` stands for a column's value. ``partition.timestamp-formatter`` says how the
text is read (:mod:`tidelake.types.java_time`); by default as ``2024-1-31`` or
``2024-01-31 08:00:00``. Values are texts as Java's ``toString`` gives them: a DATE is a number of
days, which is no time.

Source: Paimon's ``PartitionTimeExtractor`` (2.1). Where one name begins with another (``$dt`` and
``$dt1``), the longer name is meant, as in 2.1; 1.3.1 puts the shorter one's value there.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelake.types.java_time import TimeFormatter


def partition_time_text(values: Mapping[str, str | None], pattern: str | None) -> str | None:
    """The text of a partition's time; None where a value that it needs is null.

    Parameters
    ----------
    values : mapping of str to str
        Texts of the partition columns, in their order.

    Examples
    --------
    >>> partition_time_text({"day": "20240131", "hour": "8"}, "$day $hour:00:00")
    '20240131 8:00:00'
    >>> partition_time_text({"day": "20240131", "hour": None}, None)
    '20240131'
    """
    if pattern is None:
        return next(iter(values.values()))
    names = sorted(values, key=len, reverse=True)
    text, position = "", 0
    while position < len(pattern):
        name = _name_at(pattern, position, names)
        if name is None:
            text += pattern[position]
            position += 1
            continue
        value = values[name]
        if value is None:
            return None
        text += value
        position += 1 + len(name)
    return text


def _name_at(pattern: str, position: int, names: list[str]) -> str | None:
    """The column that a ``$`` at a position names."""
    if pattern[position] != "$":
        return None
    return next((name for name in names if pattern.startswith(name, position + 1)), None)


def names_a_column(pattern: str, names: list[str]) -> bool:
    """Whether a pattern has a ``$`` before the name of a column."""
    return any(_name_at(pattern, i, names) is not None for i in range(len(pattern)))


def formatter_of(pattern: str | None) -> TimeFormatter:
    """The format of ``partition.timestamp-formatter``.

    Raises
    ------
    TimePatternError
        It is none of Java's.
    """
    return TimeFormatter.lenient() if pattern is None else TimeFormatter.of_pattern(pattern)
