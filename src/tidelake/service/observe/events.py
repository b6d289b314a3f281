"""What happened to a service between two statuses, as lines for its log.

That a table is served, or no longer, is logged where it is done: by the address server.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tidelake.service.observe.json_logs import FIELDS

if TYPE_CHECKING:
    from tidelake.service.protocol.tidelake_query_v1_pb2 import ServiceStatus

_LOG = logging.getLogger("tidelake.service")


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened."""

    message: str
    fields: dict[str, object] = field(default_factory=dict)
    level: int = logging.INFO


def events(before: ServiceStatus | None, after: ServiceStatus) -> Iterator[Event]:
    """Yield what changed from a status to a later one.

    Parameters
    ----------
    before : ServiceStatus, optional
        None for the first: then all that is there is new.
    """
    yield from _of_executors(before, after)
    yield from _of_tables(before, after)


def _of_executors(before: ServiceStatus | None, after: ServiceStatus) -> Iterator[Event]:
    old = {e.index: e for e in before.executors} if before is not None else {}
    new = {e.index: e for e in after.executors}
    for index in sorted(old.keys() - new.keys()):
        fields = {"executor": index, "address": old[index].address}
        yield Event(f"executor {index} has left", fields, logging.WARNING)
    for index, executor in sorted(new.items()):
        last = old.get(index)
        fields = {"executor": index, "address": executor.address, "process": executor.process}
        if last is None or last.instance != executor.instance:
            again = "" if last is None else " again"
            yield Event(f"executor {index} has begun{again} at {executor.address}", fields)
            last = None
        if executor.ready and not (last is not None and last.ready):
            yield Event(f"executor {index} is ready", fields)
        elif last is not None and last.ready and not executor.ready:
            yield Event(f"executor {index} is not ready", fields, logging.WARNING)


def _of_tables(before: ServiceStatus | None, after: ServiceStatus) -> Iterator[Event]:
    old = {t.table: t for t in before.tables} if before is not None else {}
    new = {t.table: t for t in after.tables}
    for name, table in sorted(new.items()):
        last = old.get(name)
        fields: dict[str, object] = {"table": name, "snapshot": table.version.snapshot}
        if last is None:
            yield Event(f"table {name} has snapshot {table.version.snapshot}", fields)
        elif last.version.generation != table.version.generation:
            yield Event(f"table {name} was rolled back or recreated", fields, logging.WARNING)
        elif last.version.snapshot != table.version.snapshot:
            yield Event(f"table {name} has snapshot {table.version.snapshot}", fields)
        if table.problem and (last is None or last.problem != table.problem):
            yield Event(f"table {name}: {table.problem}", fields, logging.WARNING)


class EventLog:
    """Logs what changes from status to status."""

    def __init__(self) -> None:
        self._before: ServiceStatus | None = None

    def take(self, status: ServiceStatus) -> None:
        """Log what is different from the status before."""
        for event in events(self._before, status):
            _LOG.log(event.level, "%s", event.message, extra={FIELDS: event.fields})
        self._before = status
