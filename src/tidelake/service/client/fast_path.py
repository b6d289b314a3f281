"""The fast path of single gets: one request to one executor by frames, and its answer.

Most gets need nothing else: the layout has not changed, the executor answers, and it is not behind.
Where anything is unusual, the same keys are looked up by
:func:`tidelake.service.client.lookup.lookup`, which knows all that may go wrong, and says so.
Nothing is lost by that: a lookup changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidelake.errors import InvalidInputError
from tidelake.service.client.answers import Row
from tidelake.service.client.connection.connections import Connection
from tidelake.service.client.full_lookup import FullLookup
from tidelake.service.client.keys.key_batch import SingleKeys
from tidelake.service.client.keys.key_router import Route, RoutedKey
from tidelake.service.client.lookup import LookupOptions
from tidelake.service.client.session import Floor, Session
from tidelake.service.client.settings import ATTEMPT_SECONDS_MAX, CALL_BYTES_MAX
from tidelake.service.observe.spans import is_live
from tidelake.service.protocol import tidelake_query_v1_pb2 as pb
from tidelake.service.protocol.packed_values import pack_values
from tidelake.service.protocol.reasons import PROTOCOL


class FastPath:
    """Sends single gets. Shared by those who share the client."""

    def __init__(self, session: Session, full: FullLookup) -> None:
        self._session = session
        self._full = full

    async def send(
        self, keys: Sequence[RoutedKey], columns: tuple[str, ...] | None, end: float
    ) -> list[Row | None]:
        """Look keys of one executor up; the rows in their order."""
        session = self._session
        call = _call(session, keys, columns)
        if call is not None:
            seconds = max(min(end - session.now(), ATTEMPT_SECONDS_MAX), 0.001)
            assert call.connection.frames is not None, "the call was made for frames"
            reply = await call.connection.frames.call(call.request, seconds)
            if isinstance(reply, pb.LookupReply):
                rows = _rows(session, call, reply)
                if rows is not None:
                    return rows
        options = LookupOptions(columns, None, consistent=True, end=end)
        return await self._full.dicts(_batch(keys), options)


class _Call(NamedTuple):
    """A request for some gets.

    Parameters
    ----------
    order : list of int, optional
        Which get each key is of; None where they are in order.
    columns : tuple of str, optional
        What is wanted; None for all.
    """

    connection: Connection
    request: pb.LookupRequest
    order: list[int] | None
    columns: tuple[str, ...] | None


def _batch(gets: Sequence[RoutedKey]) -> SingleKeys:
    """The keys of some gets, as what is looked up together."""
    values, routes, routers = zip(*gets, strict=True)
    router = routers[0]
    keys = router.keys  # the table may have another key by now, which the lookup tells
    if any(other is not router for other in routers):
        return SingleKeys(keys, values)  # some were routed before the layout changed
    return SingleKeys(keys, values, routes, router)


def _call(
    session: Session, gets: Sequence[RoutedKey], columns: tuple[str, ...] | None
) -> _Call | None:
    """Make the request for some gets of one executor; None where anything is unusual."""
    view = session.view
    if view is None or is_live():
        return None
    router = view.router
    groups: dict[Route, list[int]] = {}
    for position, (_, route, by) in enumerate(gets):
        if by is not router:
            return None  # the layout has changed since
        groups.setdefault(route, []).append(position)
    connection = view.executors.get(gets[0][1].executor)
    if connection is None or connection.frames is None or view.body(columns) != pb.BODY_PACKED:
        return None
    order = None
    if len(groups) > 1:
        order = [position for own in groups.values() for position in own]
        gets = [gets[position] for position in order]
    keys = pack_values([values for values, _, _ in gets], view.keys.types)
    if len(gets) > 1 and keys.ByteSize() > CALL_BYTES_MAX:
        return None
    shown = session.shown
    request = pb.LookupRequest(
        protocol=PROTOCOL,
        table=session.identifier,
        epoch=view.layout.epoch,
        at_least=pb.Version(
            generation=shown.generation,
            snapshot=shown.snapshot,
            schema=view.table.table_schema.id,
        ),
        slices=[
            pb.Slice(
                partition=route.partition,
                bucket=route.bucket,
                count=len(own),
                buckets=route.buckets,
            )
            for route, own in groups.items()
        ],
        keys=keys,
        columns=columns or (),
    )
    return _Call(connection, request, order, columns)


def _rows(session: Session, call: _Call, reply: pb.LookupReply) -> list[Row | None] | None:
    """The rows of the gets, in their order; None where the answer is not to be shown as it is."""
    count, version = call.request.keys.count, reply.version
    reader = session.row_reader(version, call.columns)
    bits: bytes = reply.found
    if reader is None or len(bits) != (count + 7) // 8:
        return None
    flags = int.from_bytes(bits, "little")
    found: list[Row] = []
    try:
        if flags:
            found = reader.rows(reply.rows)
    except InvalidInputError:
        return None
    if len(found) != flags.bit_count() or flags >> count:
        return None
    if not session.show(Floor(version.generation, version.snapshot)):
        return None  # a newer one was shown meanwhile
    rows = iter(found)
    if call.order is None:
        return [next(rows) if flags >> place & 1 else None for place in range(count)]
    placed: list[Row | None] = [None] * count
    for place, position in enumerate(call.order):
        if flags >> place & 1:
            placed[position] = next(rows)
    return placed
