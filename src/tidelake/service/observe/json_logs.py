"""Log lines as JSON: one object per line, for machines that collect them.

``at`` is UTC with milliseconds. What a caller passed by ``extra={"fields": {...}}`` stands beside
the message, so that nobody has to parse it: table, executor, snapshot.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TextIO

FIELDS = "fields"
"""Attribute of a record with the values that stand beside its message."""
LOG_VARIABLE = "TIDELAKE_SERVICE_LOG"
"""The variable by which a service tells its processes how they log: ``text``, ``json``, ``off``."""
LOGGER = "tidelake.service"
TEXT = "%(asctime)s %(levelname)s %(message)s"


class JsonLines(logging.Formatter):
    """Formats a record as a line of JSON.

    Examples
    --------
    >>> record = logging.LogRecord("tidelake", logging.INFO, "", 0, "%d rows", (3,), None)
    >>> record.created = 0.25
    >>> JsonLines().format(record)
    '{"at": "1970-01-01T00:00:00.250Z", "level": "info", "logger": "tidelake", "message": "3 rows"}'
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        at = datetime.fromtimestamp(record.created, UTC)
        line: dict[str, object] = {
            "at": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields = getattr(record, FIELDS, None)
        if isinstance(fields, dict):
            line |= {key: value for key, value in fields.items() if key not in line}
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str, ensure_ascii=False)


def log_to(stream: TextIO, *, as_json: bool) -> logging.Handler:
    """Write the service's log lines to a stream.

    Parameters
    ----------
    as_json : bool
        One JSON object per line, or text.

    Returns
    -------
    logging.Handler
        To be removed by ``logging.getLogger("tidelake.service").removeHandler``.
    """
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines() if as_json else logging.Formatter(TEXT))
    logger = logging.getLogger(LOGGER)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    return handler


def log_of_process(environ: Mapping[str, str], stream: TextIO) -> None:
    """Write the log lines of an executor's process, in the form that its service chose.

    Parameters
    ----------
    environ : mapping
        Of the process; text is the default.
    """
    form = environ.get(LOG_VARIABLE, "text")
    if form == "off":
        logging.getLogger().addHandler(logging.NullHandler())
    else:
        log_to(stream, as_json=form == "json")
