"""The quarantine: rows that fit nowhere, kept with their reason, so that a job lives on.

An append table of the job's database, made with the first such row. An epoch's rows go into it in
one commit, before the commits to the targets, under the same identity: an epoch that comes again
adds none twice.
"""

from __future__ import annotations

import base64
import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyarrow as pa

from tidelake.cdc.source.changes import Rejected
from tidelake.cdc.target.epoch_step import EpochStep
from tidelake.engine.streams import MadeCommit
from tidelake.engine.tables import Catalog, Table
from tidelake.engine.write import WriteTransaction
from tidelake.errors import InvalidInputError
from tidelake.types import RowKind
from tidelake.types.predicate import Predicate, col

TABLE = "cdc_quarantine"
SCHEMA = pa.schema(
    [
        pa.field("job", pa.string(), nullable=False),
        pa.field("epoch", pa.int64(), nullable=False),
        pa.field("source_table", pa.string(), nullable=False),
        pa.field("target", pa.string(), nullable=False),
        pa.field("lsn", pa.int64(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("payload", pa.string(), nullable=False),
        pa.field("taken_at", pa.timestamp("ms", "UTC"), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class Misfit:
    """A rejected row with the table that lacks it."""

    target: str
    rejected: Rejected


@dataclass(frozen=True, slots=True)
class QuarantinedRow:
    """A row of the quarantine.

    Parameters
    ----------
    epoch : int
        That left it out.
    order : tuple of int
        Its place in the source.
    payload : str
        As of :class:`~tidelake.cdc.source.changes.Rejected`.
    """

    epoch: int
    source_table: str
    target: str
    order: tuple[int, int]
    kind: str
    reason: str
    payload: str


class Quarantine:
    """The quarantine of one job. For one thread.

    Parameters
    ----------
    database : str
        Where its table is.
    made : MadeCommit, optional
        The job's last commit to it.
    """

    def __init__(
        self, catalog: Catalog, database: str, job: str, made: MadeCommit | None = None
    ) -> None:
        self._catalog = catalog
        self._job = job
        self.identifier = f"{database}.{TABLE}"
        self.made = made

    def add(self, step: EpochStep, misfits: Sequence[Misfit]) -> bool:
        """Keep an epoch's rows; False if they are kept already."""
        if not misfits:
            return False
        now = self._catalog.env.clock.now_ms()
        rows = [
            {
                "job": self._job,
                "epoch": step.epoch,
                "source_table": str(one.rejected.table),
                "target": one.target,
                "lsn": one.rejected.position[0],
                "seq": one.rejected.position[1],
                "kind": str(RowKind(one.rejected.kind)),
                "reason": one.rejected.reason,
                "payload": one.rejected.payload,
                "taken_at": now,
            }
            for one in misfits
        ]
        handle = self._table().handle
        transaction = WriteTransaction(handle, step.identity(handle, self.made))
        result = transaction.write(pa.Table.from_pylist(rows, SCHEMA))
        self.made = transaction.made or self.made
        return not result.already_committed

    def rows(self) -> list[QuarantinedRow]:
        """Read the job's rows."""
        if not self._catalog.table_exists(self.identifier):
            return []
        found = self._table().to_arrow(where=col("job") == self._job)
        return [
            QuarantinedRow(
                one["epoch"],
                one["source_table"],
                one["target"],
                (one["lsn"], one["seq"]),
                one["kind"],
                one["reason"],
                one["payload"],
            )
            for one in found.to_pylist()
        ]

    def remove(self, rows: Sequence[QuarantinedRow]) -> None:
        """Delete rows, in one commit."""
        if not rows:
            return
        wanted: Predicate | None = None
        for row in dict.fromkeys(rows):
            one = (
                (col("epoch") == row.epoch)
                & (col("source_table") == row.source_table)
                & (col("lsn") == row.order[0])
                & (col("seq") == row.order[1])
                & (col("payload") == row.payload)
            )
            wanted = one if wanted is None else wanted | one
        assert wanted is not None, "there are rows"
        self._table().delete((col("job") == self._job) & wanted)

    def _table(self) -> Table:
        table = self._catalog.create_table(
            self.identifier,
            SCHEMA,
            comment="Rows that change data capture could not apply",
            if_exists="ignore",
        )
        if table.primary_keys:
            message = (
                f"Table '{self.identifier}' is not a quarantine: it has a primary key. Rename it,"
                " or name another database for the job's quarantine."
            )
            raise InvalidInputError(message, kind="cdc_quarantine", table=self.identifier)
        return table


def payload_of(row: Mapping[str, Any]) -> str:
    r"""A row as JSON, for people and for a replay: texts of values that JSON has not.

    Examples
    --------
    >>> import decimal
    >>> payload_of({"a": 1, "b": decimal.Decimal("1.50"), "c": b"\x00"})
    '{"a": 1, "b": "1.50", "c": "AA=="}'
    """
    return json.dumps(row, default=_as_text, ensure_ascii=False)


def _as_text(value: object) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, Decimal):
        return str(value)
    return repr(value)
