"""Keys that are looked up together: a few single ones, or a batch of Arrow rows.

Both are cut into parts by a router and packed into requests. What differs is the price: single keys
never become Arrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from tidelake.engine.codec import take_rows
from tidelake.service.client.keys.key_columns import KeyColumns, Values
from tidelake.service.client.keys.key_router import KeyRouter, Positions, RequestPart, Route, Run
from tidelake.service.protocol import tidelake_query_v1_pb2 as pb
from tidelake.service.protocol.packed_columns import pack_column
from tidelake.service.protocol.packed_values import pack_values


class KeyBatch(Protocol):
    """Keys to look up."""

    @property
    def keys(self) -> KeyColumns:
        """The columns that they are of."""
        ...

    @property
    def count(self) -> int:
        """How many."""
        ...

    def parts(self, router: KeyRouter, positions: Positions) -> list[RequestPart]:
        """Route some of them."""
        ...

    def packed(self, positions: Positions) -> pb.PackedRows:
        """Some of them as they are sent."""
        ...

    def rows(self) -> pa.RecordBatch:
        """All of them as Arrow columns."""
        ...


@dataclass(frozen=True, slots=True)
class ArrowKeys:
    """A batch of keys as Arrow columns."""

    keys: KeyColumns
    batch: pa.RecordBatch

    @property
    def count(self) -> int:
        """How many."""
        return int(self.batch.num_rows)

    def parts(self, router: KeyRouter, positions: Positions) -> list[RequestPart]:
        """Route some of them."""
        return router.parts(self.batch, positions)

    def packed(self, positions: Positions) -> pb.PackedRows:
        """Some of them as they are sent."""
        columns = [
            pack_column(take_rows(column, positions), data_type)
            for column, data_type in zip(self.batch.columns, self.keys.types, strict=True)
        ]
        return pb.PackedRows(count=len(positions), columns=columns)

    def rows(self) -> pa.RecordBatch:
        """All of them as Arrow columns."""
        return self.batch


@dataclass(frozen=True, slots=True)
class SingleKeys:
    """Single keys, by their values.

    Parameters
    ----------
    router : KeyRouter, optional
        Who found it: another one routes again.
    """

    keys: KeyColumns
    values: Sequence[Values]
    routes: Sequence[Route] = ()
    router: KeyRouter | None = None

    @property
    def count(self) -> int:
        """How many."""
        return len(self.values)

    def parts(self, router: KeyRouter, positions: Positions) -> list[RequestPart]:
        """Route some of them, one by one: 2 to 5 us each."""
        if router.asks_all:
            run = Run(*router.route(self.values[0])[1:3], len(positions), 0)
            return [RequestPart(i, positions, (run,)) for i in range(router.executors_count)]
        known = self.routes if router is self.router else ()
        if len(self.values) == 1:
            executor, partition, bucket, buckets = (
                known[0] if known else router.route(self.values[0])
            )
            return [RequestPart(executor, positions, (Run(partition, bucket, 1, buckets),))]
        groups: dict[tuple[int, bytes, int, int], list[int]] = {}
        for position in positions.tolist():
            route = known[position] if known else router.route(self.values[position])
            groups.setdefault(route, []).append(position)
        chosen: dict[int, tuple[list[int], list[Run]]] = {}
        for (executor, partition, bucket, buckets), found in groups.items():
            at, runs = chosen.setdefault(executor, ([], []))
            at += found
            runs.append(Run(partition, bucket, len(found), buckets))
        return [
            RequestPart(e, np.array(at, np.int64), tuple(runs)) for e, (at, runs) in chosen.items()
        ]

    def packed(self, positions: Positions) -> pb.PackedRows:
        """Some of them as they are sent."""
        values = self.values
        if len(values) == 1:
            return pack_values(values, self.keys.types)
        return pack_values([values[i] for i in positions.tolist()], self.keys.types)

    def rows(self) -> pa.RecordBatch:
        """All of them as Arrow columns."""
        return self.keys.rows_of(self.values)
