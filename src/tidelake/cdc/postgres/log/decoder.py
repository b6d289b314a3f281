"""Messages of the log to parts of :class:`~tidelake.cdc.source.changes.Changes`.

1. The RELATION messages cut each table's rows into versions. Two versions may lie in one range,
   also in the first one after a restart, when nothing is known yet.
2. The rows of one version are read by column (see :mod:`~tidelake.cdc.postgres.log.tuple_columns`):
   the old rows that were sent, then the new ones.
3. They become rows with kinds (:mod:`~tidelake.cdc.postgres.log.row_changes`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidelake.cdc.postgres.log.log_messages import (
    DELETE,
    IS_ROW,
    RELATION,
    SIGNAL,
    TRUNCATE,
    LogMessages,
    big_endian,
    signal_parts,
    truncated_oids,
)
from tidelake.cdc.postgres.log.relation import RelationVersion
from tidelake.cdc.postgres.log.row_changes import SentRows, joined, row_changes
from tidelake.cdc.postgres.log.tuple_columns import TextColumn, read_columns
from tidelake.cdc.source.changes import Part, Signal, Truncated
from tidelake.cdc.source.source_table import (
    KeyColumns,
    SourceName,
    SourceTable,
    no_key_columns,
)

_OLD_KEY, _OLD_ROW = ord("K"), ord("O")
ROWS_TOGETHER = 16_384
"""Rows whose bytes stay in the processor's cache from column to column."""
SIGNAL_PREFIX = "tidelake"
"""Of messages that are meant for us."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which tables are decoded, and what is known of them.

    Parameters
    ----------
    database : str
        Of the names.
    tables : collection of SourceName
        The others' rows are left out.
    describe : callable
        Gives the version of a table that a message describes.
    key_columns : callable
        As of :meth:`tidelake.cdc.source.source.Source.read`.
    """

    database: str
    tables: Collection[SourceName]
    describe: Callable[[RelationVersion], SourceTable]
    key_columns: KeyColumns = no_key_columns

    def name(self, relation: RelationVersion) -> SourceName:
        """A relation's name."""
        return SourceName(self.database, relation.schema, relation.name)


def decode(
    messages: LogMessages, known: Mapping[int, RelationVersion], wanted: Wanted
) -> list[Part]:
    """Decode a range.

    Parameters
    ----------
    known : mapping of int to RelationVersion
        The versions at its start, by oid.
    """
    versions = _versions(messages, known)
    parts: list[Part] = []
    rows = np.flatnonzero(IS_ROW[messages.kinds])
    oids = big_endian(messages.data, messages.starts[rows] + 1, 4)
    for oid in np.unique(oids).tolist():
        spans = versions[oid]
        if not any(wanted.name(relation) in wanted.tables for _, relation in spans):
            continue
        mine = rows[oids == oid]
        cuts = np.searchsorted(mine, [start for start, _ in spans])
        for (_, relation), first, last in zip(spans, cuts, [*cuts[1:], len(mine)], strict=True):
            if first < last and wanted.name(relation) in wanted.tables:
                table = wanted.describe(relation)
                others = wanted.key_columns(table)
                pieces = [
                    row_changes(
                        _sent_rows(messages, mine[at:end], relation), relation, table, others
                    )
                    for at, end in _pieces(first, last)
                ]
                parts.append(joined(pieces))
    parts.extend(_truncated(messages, versions, wanted))
    parts.extend(_signals(messages))
    return parts


def _pieces(first: int, last: int) -> list[tuple[int, int]]:
    cuts = [*range(first, last, ROWS_TOGETHER), last]
    return list(itertools.pairwise(cuts))


def relations_after(
    messages: LogMessages, known: Mapping[int, RelationVersion]
) -> dict[int, RelationVersion]:
    """The versions after some messages that are left out."""
    return {oid: spans[-1][1] for oid, spans in _versions(messages, known).items()}


def versions_sent(
    messages: LogMessages, known: Mapping[int, RelationVersion]
) -> list[tuple[RelationVersion | None, RelationVersion, tuple[int, int]]]:
    """The versions that begin in a range: each with the one before, if known, and its place.

    The place is that of the row before it, as in
    :attr:`~tidelake.cdc.source.changes.SourceRows.order`.
    """
    found = []
    for spans in _versions(messages, known).values():
        earlier = [None, *(relation for _, relation in spans)]
        for (place, relation), before in zip(spans, earlier, strict=False):
            if place >= 0:
                order = int(messages.lsn[place]), 2 * int(messages.index[place]) + 1
                found.append((before, relation, order))
    return sorted(found, key=lambda version: version[2])


_Span = tuple[int, RelationVersion]


def _versions(
    messages: LogMessages, known: Mapping[int, RelationVersion]
) -> dict[int, list[_Span]]:
    """The versions of each table, with the place of the message from which each holds."""
    found: dict[int, list[_Span]] = {oid: [(-1, relation)] for oid, relation in known.items()}
    for place in np.flatnonzero(messages.kinds == RELATION).tolist():
        relation = RelationVersion.parse(messages.message(place))
        spans = found.setdefault(relation.oid, [])
        # the server repeats a version that did not change
        if not spans or spans[-1][1] != relation:
            spans.append((place, relation))
    return found


def _sent_rows(
    messages: LogMessages, rows: NDArray[np.int64], relation: RelationVersion
) -> SentRows:
    """The old and new rows of row messages of one version."""
    data, count = messages.data, len(relation.columns)
    at = messages.starts[rows] + 5
    marks = data[at]
    has_old = (marks == _OLD_KEY) | (marks == _OLD_ROW)
    has_new = messages.kinds[rows] != DELETE
    old: list[TextColumn] = []
    if has_old.any():
        old, ends = read_columns(data, at[has_old] + 1, count)
        at = at.copy()
        at[has_old] = ends
    new: list[TextColumn] = []
    if has_new.any():
        new, _ = read_columns(data, at[has_new] + 1, count)
    return SentRows(
        new=new,
        old=old,
        has_new=has_new,
        has_old=has_old,
        is_old_whole=marks == _OLD_ROW,
        kinds=messages.kinds[rows],
        lsn=messages.lsn[rows],
        index=messages.index[rows],
        committed_ms=messages.committed_ms[rows],
    )


def _truncated(
    messages: LogMessages, versions: Mapping[int, list[_Span]], wanted: Wanted
) -> list[Part]:
    found: dict[SourceName, tuple[int, int]] = {}
    for place in np.flatnonzero(messages.kinds == TRUNCATE).tolist():
        for oid in truncated_oids(messages.message(place)):
            before = [relation for start, relation in versions[oid] if start < place]
            name = wanted.name(before[-1])
            if name in wanted.tables:
                found[name] = int(messages.lsn[place]), 2 * int(messages.index[place])
    return [Truncated(name, order) for name, order in found.items()]


def _signals(messages: LogMessages) -> list[Part]:
    found: list[Part] = []
    for place in np.flatnonzero(messages.kinds == SIGNAL).tolist():
        in_transaction, prefix, content = signal_parts(messages.message(place))
        if in_transaction and prefix == SIGNAL_PREFIX:
            order = int(messages.lsn[place]), 2 * int(messages.index[place])
            found.append(Signal(content.decode("utf-8", "replace"), order))
    return found
