"""Rows of the quarantine that are tried again, after the target or its source was mended.

A row is applied only if it is certain that no newer row of its key was. Its place in the source,
which the quarantine keeps, is compared with

1. the order columns of the row that the target has under the key; else
2. those of all rows of the key in the commits since the row was left out, deletes among them: a key
   that is not there may have been deleted later.

Rows are applied in the order of the source, in an epoch of their own. Each commit takes effect
once; the rows leave the quarantine after it. After a crash between the two they are tried again,
and the target has them under their own place already.

Without order columns, or once the commits since have expired, nothing is certain, and a row stays.
So do rows with values that the source did not send. A delete needs its key alone. One that stays
holds the rows before it: one of them may be of its key.

The place is compared before anything else: a row whose key was mended since, by a later change or
an earlier replay, leaves the quarantine whether it fits or not.

Cost: a Python loop over the quarantine's rows, about 4 ms each; it has 1,000 by default. Of the
target the rows under their keys are read. Keys that are not there cost a read of what was written
under them since, with a filter on each column of the key that leaves files out by their statistics.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import and_
from typing import Any

import numpy as np
import pyarrow as pa

from tidelake.cdc.columns.order_columns import ORDER_NAMES
from tidelake.cdc.job.targets import Targets
from tidelake.cdc.journal.job_state import JobState, Phase, SyncedTable
from tidelake.cdc.source.changes import SourceRows
from tidelake.cdc.source.source_table import SourceName
from tidelake.cdc.target.epoch_snapshot import JobCommits
from tidelake.cdc.target.epoch_step import EpochStep
from tidelake.cdc.target.quarantine import Quarantine, QuarantinedRow
from tidelake.cdc.target.quarantined_value import quarantined_value
from tidelake.cdc.target.target import Prepared, Target
from tidelake.engine.streams import is_partition_expiry
from tidelake.engine.tables import Table
from tidelake.errors import NotFoundError, counted
from tidelake.types import DataType, RowKind
from tidelake.types.arrow import to_arrow_type
from tidelake.types.predicate import Predicate, col

_KNOWN_METADATA = frozenset({"database_name", "schema_name", "table_name"})
"""Metadata columns that a row's table tells; the quarantine does not keep the others."""
Order = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ReplayPlan:
    """What becomes of rows of the quarantine.

    Parameters
    ----------
    fitting : tuple of QuarantinedRow
        Applied, in this order.
    outdated : tuple of QuarantinedRow
        Left aside, as the target has a newer row of the key, or this one already.
    staying : tuple of tuple
        Rows that stay in the quarantine, each with the reason.
    """

    fitting: tuple[QuarantinedRow, ...] = ()
    outdated: tuple[QuarantinedRow, ...] = ()
    staying: tuple[tuple[QuarantinedRow, str], ...] = ()
    ready: Mapping[str, tuple[Prepared, ...]] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        lines = [
            f"{counted(len(self.fitting), 'row')} of the quarantine can be applied,"
            f" {len(self.outdated)} came later or are applied already, {len(self.staying)} stay"
        ]
        lines += [f"    {row.source_table} {row.kind} {why}" for row, why in self.staying]
        return "\n".join(lines)


@dataclass
class _Judged:
    """A plan on its way."""

    fitting: list[QuarantinedRow] = field(default_factory=list)
    outdated: list[QuarantinedRow] = field(default_factory=list)
    staying: list[tuple[QuarantinedRow, str]] = field(default_factory=list)
    ready: dict[str, list[Prepared]] = field(default_factory=dict)


class QuarantineReplay:
    """Tries the rows of a job's quarantine again. For one thread.

    Parameters
    ----------
    user : str
        The user of the job's commits.
    """

    def __init__(self, targets: Targets, quarantine: Quarantine, user: str, now_ms: int) -> None:
        self._targets = targets
        self._quarantine = quarantine
        self._user = user
        self._now_ms = now_ms

    def plan(self, state: JobState, names: Iterable[SourceName] | None = None) -> ReplayPlan:
        """Find out what would become of the rows; nothing is changed.

        Parameters
        ----------
        names : iterable of SourceName, optional
            Tables of the source; all by default.
        """
        tables = {str(name): one for name, one in state.tables.items()}
        wanted = None if names is None else {str(name) for name in names}
        rows = [
            row for row in self._quarantine.rows() if wanted is None or row.source_table in wanted
        ]
        judged = _Judged()
        by_table: dict[str, list[QuarantinedRow]] = {}
        for row in sorted(rows, key=lambda one: one.order):
            by_table.setdefault(row.source_table, []).append(row)
        for name, given in by_table.items():
            reason = self._refusal(tables.get(name), state)
            if reason:
                judged.staying += [(row, reason) for row in given]
            else:
                self._judge(tables[name], given, state, judged)
        ready = {name: tuple(found) for name, found in judged.ready.items()}
        return ReplayPlan(
            tuple(judged.fitting), tuple(judged.outdated), tuple(judged.staying), ready
        )

    def apply(self, plan: ReplayPlan, step: EpochStep, state: JobState) -> JobState:
        """Apply a plan in an epoch of its own; gives the state after it."""
        made, schemas = dict(state.made), dict(state.schema_ids)
        for identifier, parts in plan.ready.items():
            target = self._targets.target(identifier, state)
            rows = pa.concat_tables([part.rows for part in parts])
            kinds = np.concatenate([part.kinds for part in parts])
            target.commit(step, Prepared(rows, kinds, {}))
            if target.made is not None:
                made[identifier] = target.made
            schemas[identifier] = target.handle.schema.id
        removed = [*plan.fitting, *plan.outdated]
        self._quarantine.remove(removed)
        state = replace(
            state,
            made=made,
            schema_ids=schemas,
            quarantined_count=max(0, state.quarantined_count - len(removed)),
        )
        for name, one in state.tables.items():
            count = sum(row.source_table == str(name) for row in plan.fitting)
            if count:
                state = state.with_table(name, replace(one, rows_count=one.rows_count + count))
        return state

    # ---- tables

    def _refusal(self, table: SyncedTable | None, state: JobState) -> str:
        """Why no row of a table can be tried again; empty if they can."""
        if table is None:
            return "the job does not have its table"
        if table.phase is not Phase.LIVE:
            return f"its table is {table.phase}"
        target = self._targets.target(table.target, state)
        target.refresh()
        fields = {one.name for one in target.handle.schema.fields}
        if not set(ORDER_NAMES) <= fields or not target.handle.schema.primary_keys:
            return (
                f"'{table.target}' has no primary key with the order columns, so it is not known"
                f" whether a newer row of the key was applied: resnapshot {table.target} instead"
            )
        metadata = self._targets.settings.columns.metadata.columns
        unknown = [one.name for one in metadata if one.key not in _KNOWN_METADATA]
        if unknown:
            return f"the quarantine does not keep the metadata column '{unknown[0]}'"
        return ""

    def _judge(
        self, table: SyncedTable, rows: Sequence[QuarantinedRow], state: JobState, judged: _Judged
    ) -> None:
        target = self._targets.target(table.target, state)
        keyed: list[tuple[QuarantinedRow, Prepared | None]] = []
        for row in rows:
            if row.order < table.since:
                judged.outdated.append(row)  # the table was copied later
                continue
            try:
                keyed.append((row, self._key_of(row, table, target)))
            except ValueError as error:
                judged.staying.append((row, str(error)))
                if _kind(row) is RowKind.DELETE:
                    keyed.append((row, None))
        orders = self._orders(target, [(row, key) for row, key in keyed if key is not None])
        fitting: list[tuple[QuarantinedRow, Prepared]] = []
        for row, key in keyed:
            if key is None:
                reason = "a later delete of its table stays, which may be of its key"
                judged.staying += [(one, reason) for one, _ in fitting]
                fitting.clear()
                continue
            order, reason = orders[row]
            # its age first: what is not wanted any more need not fit
            if order is not None and order >= row.order:
                judged.outdated.append(row)
                continue
            try:
                prepared = key if _kind(row) is RowKind.DELETE else None
                prepared = prepared or self._prepared(row, table, target)
            except ValueError as error:
                judged.staying.append((row, str(error)))
                continue
            if reason:
                judged.staying.append((row, reason))
            else:
                fitting.append((row, prepared))
        for row, prepared in fitting:
            judged.fitting.append(row)
            judged.ready.setdefault(table.target, []).append(prepared)

    def _orders(
        self, target: Target, keyed: Sequence[tuple[QuarantinedRow, Prepared]]
    ) -> dict[QuarantinedRow, tuple[Order | None, str]]:
        """For each row the newest order applied under its key, or why that is not known."""
        if not keyed:
            return {}
        applied = self._applied(target, [key for _, key in keyed])
        keys = [_key(key, target) for _, key in keyed]
        absent = {
            place: row
            for place, ((row, _), order) in enumerate(zip(keyed, applied, strict=True))
            if order is None
        }
        since = None
        if absent:
            wanted = [keys[place] for place in absent]
            since = _CommitsSince(target, self._user, list(absent.values()), wanted)
        return {
            row: since.newest(row, keys[place])
            if since is not None and place in absent
            else (applied[place], "")
            for place, (row, _) in enumerate(keyed)
        }

    # ---- rows

    def _key_of(self, row: QuarantinedRow, table: SyncedTable, target: Target) -> Prepared:
        """Make a delete of the row's key, of which no other value must fit."""
        return self._prepared(replace(row, kind=str(RowKind.DELETE)), table, target)

    def _prepared(self, row: QuarantinedRow, table: SyncedTable, target: Target) -> Prepared:
        """Make a target's row; ``ValueError`` if it does not fit."""
        kind = _kind(row)
        part = SourceRows(
            table.version,
            self._values(row, table, target),
            np.array([int(kind)], np.int8),
            np.array([row.order], np.int64),
            np.zeros(1, np.int64),
        )
        keys = target.handle.schema.primary_keys
        made = self._targets.maker(table.version).changes(part, keys, self._now_ms)
        if made.rejected:
            raise ValueError(made.rejected[0].reason)
        nulls = [name for name in keys if made.rows.rows.column(name).null_count]
        if nulls:
            message = f"column '{nulls[0]}' of its key is not known"
            raise ValueError(message)
        prepared = target.prepare(made.rows)
        if prepared.left_out:
            raise ValueError(prepared.left_out[0])
        return prepared

    def _values(self, row: QuarantinedRow, table: SyncedTable, target: Target) -> pa.RecordBatch:
        """The row with the source's columns, in the target's types; ``ValueError`` if not read."""
        try:
            payload = json.loads(row.payload)
        except ValueError:
            payload = None
        if not isinstance(payload, dict):
            message = "its payload is no JSON object"
            raise ValueError(message)
        name_of = self._targets.settings.columns.name
        types = {one.name: one.type for one in target.handle.schema.fields}
        arrays: dict[str, pa.Array] = {}
        for column in table.version.columns:
            kind = types.get(name_of(column.name), column.type)
            assert kind is not None, "a table that is live has types"
            shown = column.name if column.name in payload else name_of(column.name)
            try:
                arrays[column.name] = _array_of(payload, shown, kind)
            except ValueError as error:
                if _kind(row) is RowKind.DELETE:
                    arrays[column.name] = pa.nulls(1, to_arrow_type(kind))
                    continue
                message = f"column '{column.name}': {error}"
                raise ValueError(message) from error
        return pa.RecordBatch.from_pydict(arrays)

    def _applied(self, target: Target, parts: Sequence[Prepared]) -> list[Order | None]:
        """The order of the row that the target has under each key; None for a key without one."""
        names = list(target.handle.schema.primary_keys)
        keys = pa.concat_tables([part.rows.select(names) for part in parts])
        found = Table(target.handle).get_many(keys, columns=[*names, *ORDER_NAMES])
        orders = (found.column(name).to_pylist() for name in ORDER_NAMES)
        there = found.column(names[0]).to_pylist()
        return [
            None if key is None else _order(first, second)
            for key, first, second in zip(there, *orders, strict=True)
        ]


class _CommitsSince:
    """The rows that were written to a target since some rows were left out.

    Parameters
    ----------
    rows : sequence of QuarantinedRow
        Whose keys the target does not have.
    keys : sequence of tuple
        Their keys: what was written under others is not read, as far as files tell it.
    """

    def __init__(
        self,
        target: Target,
        user: str,
        rows: Sequence[QuarantinedRow],
        keys: Sequence[tuple[Any, ...]],
    ) -> None:
        self._keys = frozenset(keys)
        self._table = Table(target.handle)
        self._names = list(target.handle.schema.primary_keys)
        self._user = user
        first = min(row.epoch for row in rows) - 1
        self._start = JobCommits.since(target.handle, user, first).at(first)
        self._orders: dict[tuple[Any, ...], Order] | None = None
        self._dropped: dict[tuple[int, tuple[Any, ...]], bool] = {}

    def newest(self, row: QuarantinedRow, key: tuple[Any, ...]) -> tuple[Order | None, str]:
        """The newest order written under a key, or why it is not known."""
        expired = "the commits since have expired, so a newer delete may be among them"
        if self._start is None:
            return None, expired
        if self._is_replaced_after(row.epoch, key):
            return None, "the table was emptied or replaced since"
        try:
            if self._orders is None:
                self._orders = self._read(self._start)
        except NotFoundError:
            return None, expired
        return self._orders.get(key), ""

    def _is_replaced_after(self, epoch: int, key: tuple[Any, ...]) -> bool:
        log = self._table.handle.snapshots
        assert self._start is not None, "looked at before"
        for number in range(self._start + 1, (log.latest_id() or 0) + 1):
            one = log.find(number)
            if one is None or one.commit_kind != "OVERWRITE":
                continue
            if is_partition_expiry(one) and not self._is_dropped(number, key):
                continue
            if one.commit_user != self._user or one.commit_identifier > epoch:
                return True
        return False

    def _is_dropped(self, number: int, key: tuple[Any, ...]) -> bool:
        """Whether an expiry of partitions dropped that of a key, or may have."""
        values = dict(zip(self._names, key, strict=True))
        names = self._table.partition_keys
        if not all(name in values for name in names):
            return True
        place = (number, tuple(values[name] for name in names))
        if place not in self._dropped:
            own = reduce(and_, (col(name) == values[name] for name in names))
            try:
                before, after = (
                    self._table.plan(where=own, snapshot_id=one).files_read > 0
                    for one in (number - 1, number)
                )
            except NotFoundError:  # it has expired
                return True
            self._dropped[place] = before and not after
        return self._dropped[place]

    def _read(self, start: int) -> dict[tuple[Any, ...], Order]:
        found: dict[tuple[Any, ...], Order] = {}
        columns = [*self._names, *ORDER_NAMES]
        wanted: Predicate | None = None
        for name, values in zip(self._names, zip(*self._keys, strict=True), strict=True):
            one_of = col(name).isin(dict.fromkeys(values))
            wanted = one_of if wanted is None else wanted & one_of
        for batch in self._table.changes_batches(
            start, columns=columns, where=wanted, mode="delta"
        ):
            for one in batch.to_pylist():
                key = tuple(one[name] for name in self._names)
                if key not in self._keys:
                    continue
                order = _order(*(one[name] for name in ORDER_NAMES))
                found[key] = max(found.get(key, order), order)
        return found


def _kind(row: QuarantinedRow) -> RowKind:
    return RowKind.parse(row.kind)


def _array_of(payload: Mapping[str, object], name: str, kind: DataType) -> pa.Array:
    """One value of a payload; ``ValueError`` if it is not there, or not of the type."""
    if name not in payload:
        message = "its value is not in the payload"
        raise ValueError(message)
    try:
        return pa.array([quarantined_value(payload[name], kind)], to_arrow_type(kind))
    except (pa.ArrowInvalid, OverflowError) as error:
        message = f"{payload[name]!r} is no {kind}"
        raise ValueError(message) from error


def _key(prepared: Prepared, target: Target) -> tuple[Any, ...]:
    [row] = prepared.rows.select(list(target.handle.schema.primary_keys)).to_pylist()
    return tuple(row.values())


def _order(first: int | None, second: int | None) -> Order:
    """A row's order; one that somebody else wrote is newer than all."""
    newest = (1 << 63) - 1
    return (newest, newest) if first is None or second is None else (first, second)
