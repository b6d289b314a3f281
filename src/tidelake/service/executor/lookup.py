"""One lookup: a request is checked in full, then answered from one snapshot.

Checks, in this order: protocol, table and token, number of keys, version, owner and number of
buckets of each slice, columns, keys. What is wrong with the request is the caller's
(INVALID_ARGUMENT); what has changed since the caller asked for the layout is FAILED_PRECONDITION
with a reason, and the caller asks for it again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidelake.engine.env import Clock
from tidelake.engine.lookup import RawColumn, RowsOfKeys
from tidelake.engine.metadata import BucketId
from tidelake.errors import InvalidInputError, counted, near_names
from tidelake.service.address.access import Caller
from tidelake.service.address.listener import check_protocol
from tidelake.service.address.messages import version_from, version_message
from tidelake.service.address.refusal import Refusal, Status
from tidelake.service.executor.config import Limits
from tidelake.service.executor.owned_table import AnswerForm, OpenTable, OwnedTable, OwnedTables
from tidelake.service.protocol import tidelake_query_v1_pb2 as pb
from tidelake.service.protocol.ownership import ANY_BUCKET
from tidelake.service.protocol.packed_columns import (
    arrow_body,
    bits,
    is_packable,
    pack_column,
    unpack,
)
from tidelake.service.protocol.reasons import BUCKETS_KEY, Reason, buckets_to_text

SLICES_MAX = 65_536
FEW_KEYS_MAX = 96
"""Up to as many keys are looked up one by one: 2 us each, against 200 us for any number of them by
columns."""
SWAPS_MAX = 8
"""Snapshots that may come while one lookup is tried."""
PARTITION_BYTES_MAX = 64 << 10
ROW_BYTES_MIN = 12
"""A partition's row: its arity and at least a header."""


@dataclass(frozen=True, slots=True)
class Lookups:
    """Answers lookups of one executor.

    Parameters
    ----------
    limits : Limits
        What it takes on.
    poke : callable
        Asks for an update of a table at once.
    """

    tables: OwnedTables
    limits: Limits
    poke: Callable[[OwnedTable], None]
    clock: Clock

    def answer(self, request: pb.LookupRequest, caller: Caller, end: float) -> pb.LookupReply:
        """Answer one request.

        Raises
        ------
        Refusal, TidelakeError
            It is not answered.
        """
        begin = self.clock.monotonic_seconds()
        check_protocol(request.protocol)
        caller.check_reads(request.table)
        table = self._table(request.table)
        try:
            reply, found = self._answer(table, request, end)
        except Exception:
            table.meter.refused_one()
            raise
        seconds = self.clock.monotonic_seconds() - begin
        table.meter.answered(keys=request.keys.count, found=found, seconds=seconds)
        return reply

    def _table(self, name: str) -> OwnedTable:
        table = self.tables.find(name)
        if table is not None:
            return table
        if not self.tables.is_told:
            message = "The executor has just started and does not know its tables yet: try again."
            raise Refusal(Status.UNAVAILABLE, Reason.NOT_READY, message)
        message = f"Table '{name}' is not served here: it was removed, dropped or never added."
        raise Refusal(Status.NOT_FOUND, "table-not-served", message)

    def _answer(
        self, table: OwnedTable, request: pb.LookupRequest, end: float
    ) -> tuple[pb.LookupReply, int]:
        self._check_size(request)
        wanted = version_from(request.at_least)
        with table.use(wanted, end, lambda: self.poke(table)) as opened:
            if request.HasField("at_least") and not opened.has_keys_of(wanted):
                message = (
                    f"Table '{table.name}' has other key columns than in schema {wanted.schema}, or"
                    " was made anew since: open it again."
                )
                raise Refusal(Status.FAILED_PRECONDITION, Reason.SCHEMA_CHANGED, message)
            at, counts = _counts(opened)
            slices = _slices(opened, request.slices, counts)
            form = opened.form_of(tuple(request.columns)) or _form(opened, request.columns)
            few = _few_keys(opened, request, form, at, slices)
            if few is not None:
                return few
            keys = _keys(opened, request.keys)
            result = _result(opened, request, keys)
            version = version_message(opened.version_at(result.snapshot_id))
            found = bits(result.found)
            # packed while the files are open: rows may lie in mapped memory
            if request.body == pb.BODY_ARROW:
                reply = pb.LookupReply(
                    version=version, found=found, arrow=arrow_body(result.rows())
                )
            else:
                reply = pb.LookupReply(version=version, found=found, rows=_packed(result, form))
        return reply, result.rows_count

    def _check_size(self, request: pb.LookupRequest) -> None:
        count = request.keys.count
        if count > self.limits.keys:
            message = (
                f"The request has {count} keys, and one has {self.limits.keys} at most: ask in"
                " several."
            )
            raise Refusal(Status.RESOURCE_EXHAUSTED, "too-many-keys", message)
        if len(request.slices) > SLICES_MAX:
            message = f"The request has {len(request.slices)} slices, and one has {SLICES_MAX}."
            raise Refusal(Status.RESOURCE_EXHAUSTED, "too-many-slices", message)
        in_slices = sum(s.count for s in request.slices)
        if request.slices and in_slices != count:
            message = f"The slices of the request have {in_slices} keys, and its columns {count}."
            raise _wrong("slices", message)


def _result(opened: OpenTable, request: pb.LookupRequest, keys: pa.RecordBatch) -> RowsOfKeys:
    """What the query finds, in buckets that are those of the snapshot it is at.

    The query may swap to the next snapshot between the check of the slices and the lookup. After a
    rescale the same bucket then holds other keys.
    """
    for _ in range(SWAPS_MAX):
        at, counts = _counts(opened)
        slices = _slices(opened, request.slices, counts) if keys.num_rows else []
        result = opened.query.locate(keys, columns=tuple(request.columns) or None, slices=slices)
        if result.snapshot_id == at or opened.counts.get(result.snapshot_id or 0) == counts:
            return result
    raise _changing(opened)


def _counts(opened: OpenTable) -> tuple[int | None, Mapping[bytes, int]]:
    """The snapshot that the query is at, and the numbers of buckets in it."""
    for _ in range(SWAPS_MAX):
        at = opened.query.snapshot_id
        counts = opened.counts.get(at or 0)
        if counts is not None:
            return at, counts
    raise _changing(opened)


def _changing(opened: OpenTable) -> Refusal:
    message = f"Table '{opened.table.identifier}' is changing: try again."
    return Refusal(Status.UNAVAILABLE, Reason.NOT_READY, message)


def _slices(
    opened: OpenTable, given: Sequence[pb.Slice], counts: Mapping[bytes, int]
) -> list[tuple[BucketId | None, int]] | None:
    """The slices as the query takes them, after a check of their owner; None: it routes keys."""
    found: list[tuple[BucketId | None, int]] = []
    is_routed = bool(given)
    others: dict[int, int] = {}
    known = opened.known_slices(counts)
    for number, one in enumerate(given):
        partition, bucket = one.partition, one.bucket
        bucket_id = known.get((partition, bucket, one.buckets))
        if bucket_id is not None:
            found.append((bucket_id, one.count))
            continue
        if bucket < ANY_BUCKET:
            raise _wrong("slices", f"Slice {number} has bucket {bucket}: give -1 or a bucket.")
        if partition:
            _check_partition(partition, number)
        if bucket == ANY_BUCKET or not opened.owns.by_bucket:
            if partition and not opened.owns.by_bucket:
                _check_owner(opened, BucketId(partition, ANY_BUCKET))
            # without a partition the query finds it in the key
            is_routed = is_routed and bool(partition)
            found.append((BucketId(partition, ANY_BUCKET), one.count))
            continue
        buckets = counts.get(partition, opened.default_buckets)
        if one.buckets != buckets:
            others[number] = buckets
            continue
        bucket_id = BucketId(partition, bucket)
        _check_owner(opened, bucket_id)
        if len(known) < KNOWN_SLICES_MAX:
            known[partition, bucket, buckets] = bucket_id
        found.append((bucket_id, one.count))
    if others:
        message = (
            f"{len(others)} slices were made for another number of buckets than their partitions"
            f" have; '{BUCKETS_KEY}' has the right ones."
        )
        shown = dict(list(others.items())[:BUCKETS_SHOWN_MAX])
        raise Refusal(
            Status.FAILED_PRECONDITION,
            Reason.BUCKET_COUNT,
            message,
            [(BUCKETS_KEY, buckets_to_text(shown))],
        )
    return found if is_routed else None


KNOWN_SLICES_MAX = 4_096
BUCKETS_SHOWN_MAX = 500
"""Metadata of a call has 8 KiB at most; the caller asks again for the others."""


def _check_partition(partition: bytes, number: int) -> None:
    size = len(partition)
    if size % 4 or size < ROW_BYTES_MIN or size > PARTITION_BYTES_MAX:
        message = f"Slice {number} has a partition of {size} bytes, which is no serialized row."
        raise _wrong("slices", message)


def _check_owner(opened: OpenTable, bucket_id: BucketId) -> None:
    if not opened.owns(bucket_id):
        message = (
            f"Executor {opened.owns.index} of {opened.owns.executors_count} does not own bucket"
            f" {bucket_id.bucket} of its partition: ask for the layout again."
        )
        raise Refusal(Status.FAILED_PRECONDITION, Reason.WRONG_OWNER, message)


def _few_keys(
    opened: OpenTable,
    request: pb.LookupRequest,
    form: AnswerForm,
    at: int | None,
    slices: Sequence[tuple[BucketId | None, int]] | None,
) -> tuple[pb.LookupReply, int] | None:
    """Answer a few keys one by one; None where they have to go by columns.

    `at` is the snapshot whose buckets were checked.
    """
    keys, reader = request.keys, opened.key_reader
    if (
        reader is None
        or not 0 < keys.count <= FEW_KEYS_MAX
        or request.body == pb.BODY_ARROW
        or len(keys.columns) != len(reader.fields)
        or any(column.valid for column in keys.columns)
        or not form.is_packable
    ):
        return None
    values = list(zip(*reader.columns(keys, what="The keys"), strict=True))
    result = opened.query.raw_rows(values, columns=form.names, slices=slices)
    if result is None or result.snapshot_id != at:
        return None  # rows must be merged; or an update came meanwhile
    rows = pb.PackedRows(count=result.rows_count, columns=list(map(_column, result.columns)))
    reply = pb.LookupReply(
        version=version_message(opened.version_at(at)), found=result.found, rows=rows
    )
    return reply, result.rows_count


def _form(opened: OpenTable, names: Sequence[str]) -> AnswerForm:
    """The form of answers with these columns, after a check of them."""
    fields = {f.name: f for f in opened.schema.fields}
    unknown = [name for name in names if name not in fields]
    if unknown:
        message = (
            f"Table '{opened.table.identifier}' has no column '{unknown[0][:100]}'."
            f"{near_names(unknown[0][:100], fields)}"
        )
        raise _wrong("unknown-column", message)
    if len(set(names)) != len(names):
        raise _wrong("columns", "A column is asked for twice.")
    chosen = tuple(fields[name] for name in names) or opened.schema.fields
    form = AnswerForm(tuple(f.name for f in chosen), tuple(f.type for f in chosen))
    opened.keep_form(tuple(names), form)
    return form


def _keys(opened: OpenTable, packed: pb.PackedRows) -> pa.RecordBatch:
    fields = opened.key_fields
    if len(packed.columns) != len(fields):
        names = ", ".join(f.name for f in fields)
        message = (
            f"A key of table '{opened.table.identifier}' has {counted(len(fields), 'column')}"
            f" ({names}), and the request {len(packed.columns)}."
        )
        raise _wrong("key-columns", message)
    keys = unpack(packed, fields)
    for field, column in zip(fields, keys.columns, strict=True):
        if column.null_count:
            message = f"Key column '{field.name}' holds a null: a primary key has none."
            raise _wrong("null-key", message)
    return keys


def _packed(result: RowsOfKeys, form: AnswerForm) -> pb.PackedRows:
    if not form.is_packable:
        name = form.names[[is_packable(t) for t in form.types].index(False)]
        message = f"Column '{name}' has no packed form: ask for an Arrow body (BODY_ARROW)."
        raise InvalidInputError(message, kind="nested_column")
    columns = [
        _column(column) if isinstance(column, RawColumn) else pack_column(column, data_type)
        for column, data_type in zip(result.columns(), form.types, strict=True)
    ]
    return pb.PackedRows(count=result.rows_count, columns=columns)


def _column(raw: RawColumn) -> pb.Column:
    if not raw.valid:  # a field that is not named costs nothing
        return (
            pb.Column(values=raw.values, offsets=raw.offsets)
            if raw.offsets
            else pb.Column(values=raw.values)
        )
    return pb.Column(values=raw.values, offsets=raw.offsets, valid=raw.valid)


def _wrong(reason: str, message: str) -> Refusal:
    return Refusal(Status.INVALID_ARGUMENT, reason, message)
