"""The options that say when a partition is done, and how that is told; the check of what is set.

Source: Paimon's ``PartitionMarkDoneAction`` and ``PartitionMarkDoneTrigger`` (2.1).
"""

from __future__ import annotations

import re
import urllib.parse
from dataclasses import dataclass
from typing import Any

from tidelake.commit.catalog_listing import DONE_PARTITION
from tidelake.commit.partition_expiry import time_formatter
from tidelake.errors import InvalidInputError, near_names, shortened
from tidelake.options import Option, Options, declared, warn_once
from tidelake.types import TableSchema
from tidelake.types.java_time import TimeFormatter

SUCCESS_FILE, MARK_EVENT = "success-file", "mark-event"
HTTP_REPORT, CUSTOM = "http-report", "custom"
ACTIONS = (SUCCESS_FILE, DONE_PARTITION, MARK_EVENT, HTTP_REPORT, CUSTOM)
_URL = "partition.mark-done-action.http.url"
_BELOW_HOST = re.compile(r"[/?#]")
_CHECKED: tuple[Option[Any], ...] = (
    declared.PARTITION_MARK_DONE_ACTION,
    declared.PARTITION_MARK_DONE_ACTION_HTTP_URL,
    declared.PARTITION_IDLE_TIME_TO_DONE,
    declared.PARTITION_TIME_INTERVAL,
    declared.PARTITION_END_INPUT_TO_DONE,
)


@dataclass(frozen=True, slots=True)
class DoneRule:
    """When a partition is done by itself: long after its last rows, and after its own end.

    Parameters
    ----------
    idle_ms : int
        How long nothing must have come.
    interval_ms : int
        How long a partition lasts, from the time that its values say.
    by_watermark : bool
        Whether time is that of the snapshots' watermarks, in UTC; else the clock, in local time.
    pattern : str, optional
        Text of a partition's time, made of its columns.
    formatter : TimeFormatter
        How the text is read.
    """

    idle_ms: int
    interval_ms: int
    by_watermark: bool
    pattern: str | None
    formatter: TimeFormatter

    @classmethod
    def of(cls, options: Options, *, table: str) -> DoneRule | None:
        """The rule of a table; None where no partition is done by the time."""
        idle_ms = options.get(declared.PARTITION_IDLE_TIME_TO_DONE)
        interval_ms = options.get(declared.PARTITION_TIME_INTERVAL)
        if idle_ms is None or interval_ms is None:
            return None
        return cls(
            idle_ms,
            interval_ms,
            options.get(declared.PARTITION_MARK_DONE_ACTION_MODE) == "watermark",
            options.get(declared.PARTITION_TIMESTAMP_PATTERN),
            time_formatter(options, table),
        )


def actions_of(options: Options, *, table: str) -> tuple[str, ...]:
    """The actions by which a table's partitions are marked, in the order of the option.

    Raises
    ------
    InvalidInputError
        An action is unknown, or there is none.
    """
    text = options.get(declared.PARTITION_MARK_DONE_ACTION)
    names = tuple(dict.fromkeys(word.strip().lower() for word in text.split(",")))
    for name in names:
        if name not in ACTIONS:
            message = (
                f"Table {table}: option 'partition.mark-done-action' is '{shortened(text)}' but"
                f" must be of {', '.join(ACTIONS)}, with commas between."
                f"{near_names(name, ACTIONS)}"
            )
            raise _wrong(message, "partition.mark-done-action", table)
    return names


def report_url(options: Options, *, table: str) -> str:
    """The URL of the action ``http-report``.

    Raises
    ------
    InvalidInputError
        It is missing, or is none of HTTP.
    """
    text = options.get(declared.PARTITION_MARK_DONE_ACTION_HTTP_URL) or ""
    try:
        parts = urllib.parse.urlsplit(text)
        is_good = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
        (parts.hostname or "").encode("idna")  # as the lookup of the name does
    except ValueError:  # a port that is no number; a name with parts that are empty or too long
        is_good = False
    if is_good and text.isascii() and text.isprintable() and " " not in text:
        return text
    what = f"is '{shortened(shown_url(text))}'" if text else "is missing"
    message = (
        f"Table {table}: 'partition.mark-done-action' = 'http-report' reports to a server, and"
        f" '{_URL}' {what}: set it to a URL such as 'http://host:8080/done'."
    )
    raise _wrong(message, _URL, table)


def shown_url(url: str) -> str:
    """A URL without what may be secret: no more than scheme, host and port.

    Examples
    --------
    >>> shown_url("https://me:secret@host:80/hooks/secret?token=secret")
    'https://host:80/...'
    """
    scheme, slashes, rest = url.partition("://") if "://" in url else ("", "", url)
    host, *below = _BELOW_HOST.split(rest, maxsplit=1)
    if any("@" in text for text in below):  # a password with "/" in it, of which host has a part
        return f"{scheme}{slashes}..."
    return f"{scheme}{slashes}{host.rpartition('@')[2]}{'/...' if below else ''}"


def check_partition_done(
    schema: TableSchema, options: Options, *, table: str, before: Options | None = None
) -> None:
    """Refuse options by which no partition could ever be marked as done.

    Parameters
    ----------
    before : Options, optional
        The table's until now: what it had already is not refused.

    Raises
    ------
    InvalidInputError
        An action is unknown, ``http-report`` has no URL, or an idle time has no interval.
    """
    if before is not None and all(options.get(o) == before.get(o) for o in _CHECKED):
        return
    if HTTP_REPORT in actions_of(options, table=table):
        report_url(options, table=table)
    idle_ms = options.get(declared.PARTITION_IDLE_TIME_TO_DONE)
    if idle_ms is not None and options.get(declared.PARTITION_TIME_INTERVAL) is None:
        message = (
            f"Table {table}: 'partition.idle-time-to-done' needs 'partition.time-interval', by"
            " which a partition's own end is known: set it to '1 d' for a partition of a day."
        )
        raise _wrong(message, "partition.time-interval", table)
    marks = idle_ms is not None or options.get(declared.PARTITION_END_INPUT_TO_DONE)
    if marks and not schema.partition_keys:
        warn_once(table, "no partition will be marked as done: it has no partitions.")


def _wrong(message: str, key: str, table: str) -> InvalidInputError:
    return InvalidInputError(message, kind="option_value", option=key, table=table)
