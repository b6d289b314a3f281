"""Frames that PostgreSQL once sent, decoded without a server; and their ranges, cut anywhere."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from cdc_postgres import part_lines
from hypothesis import given
from hypothesis import strategies as st

from tidelake.cdc.postgres.catalogue import Catalogue
from tidelake.cdc.postgres.log.decoder import Wanted, decode, relations_after
from tidelake.cdc.postgres.log.log_cut import count_read, count_until, cut
from tidelake.cdc.postgres.log.log_messages import Frames, LogMessages, Transaction, scan
from tidelake.cdc.postgres.position import LogPosition
from tidelake.cdc.source.changes import Signal, SourceRows, Truncated
from tidelake.cdc.source.source_table import SourceName
from tidelake.cdc.source.type_mapping import TypeMapping

RECORDED = Path(__file__).parents[4] / "golden" / "pgoutput"
NAMES = [SourceName("d", "public", table) for table in "fk"]
CATALOGUE = Catalogue("d", TypeMapping(), lambda query, values: [])
WANTED = Wanted("d", NAMES, CATALOGUE.version)


def read_file(version):
    lines = (RECORDED / f"statements_{version}.txt").read_text().splitlines()
    frames = [bytes.fromhex(line[2:]) for line in lines if line.startswith("> ")]
    return frames, [line[2:] for line in lines if line.startswith("= ")]


def decoded(frames):
    messages, _ = scan(Frames(frames), Transaction())
    return decode(messages, {}, WANTED)


def shown(parts):
    found = []
    for part in parts:
        if isinstance(part, Signal):
            found.append(f"signal {part.text} {part.order[1]}")
            continue
        if isinstance(part, Truncated):
            found.append(f"truncated {part.table.table} {part.order[1]}")
            continue
        columns = [f"{c.name} {c.native_type}" for c in part.table.columns]
        found.append(f"{part.table.name.table}({', '.join(columns)}) key {part.table.keys}")
        # places of the log differ from run to run; their second numbers do not
        found += [
            f"  {order} {line}"
            for order, line in zip(part.order[:, 1].tolist(), part_lines(part), strict=True)
        ]
        if part.old_keys is not None:
            found.append(f"  old keys {part.old_keys.to_pylist()}")
        found += [f"  rejected {r.position[1]} {r.reason} {r.payload[:40]}" for r in part.rejected]
    return found


@pytest.fixture(params=[18, 16])
def recording(request):
    return read_file(request.param)


def test_recorded_frames_are_decoded(recording):
    frames, expected = recording
    assert shown(decoded(frames)) == expected


def test_versions_send_the_same():
    assert read_file(18)[1] == read_file(16)[1]


FRAMES = read_file(18)[0]
WHOLE = scan(Frames(FRAMES), Transaction())[0]


@given(st.lists(st.integers(0, len(FRAMES)), max_size=6))
def test_frames_may_arrive_in_any_pieces(cuts):
    cuts = [0, *sorted(cuts), len(FRAMES)]
    before, pieces = Transaction(), []
    for start, end in itertools.pairwise(cuts):
        messages, before = scan(Frames(FRAMES[start:end]), before)
        pieces.append(messages)
    joined = LogMessages.join(pieces)
    for name in ("kinds", "lsn", "index", "committed_ms"):
        assert np.array_equal(getattr(joined, name), getattr(WHOLE, name)), name
    assert [joined.message(i) for i in range(len(joined))] == [
        WHOLE.message(i) for i in range(len(WHOLE))
    ]
    assert not before.is_open


def rows_by_table(parts):
    found = {}
    for part in parts:
        if isinstance(part, SourceRows):
            found.setdefault(part.table.name, []).extend(
                zip(map(tuple, part.order.tolist()), part_lines(part), strict=True)
            )
    return found


def ranges(rows_max, bytes_max):
    """Read all in ranges; their positions and parts."""
    rest, known, start = WHOLE, {}, LogPosition(0)
    oids = {relation.oid for relation in relations_after(WHOLE, {}).values()}
    found = []
    while len(rest):
        chosen = cut(rest, rows_max, bytes_max, oids)
        if chosen is None:
            break
        taken = rest.part(0, chosen.count)
        parts, known = decode(taken, known, WANTED), relations_after(taken, known)
        found.append((start, chosen.position, parts))
        assert chosen.position > start
        start, rest = chosen.position, rest.part(chosen.count, len(rest))
    return found


@given(st.integers(1, 40), st.sampled_from([1, 500, 3000, 1 << 30]))
def test_ranges_give_the_same_rows_and_can_be_read_again(rows_max, bytes_max):
    pieces = ranges(rows_max, bytes_max)
    joined = {}
    for start, end, parts in pieces:
        rows = rows_by_table(parts)
        truncated = [part.table for part in parts if isinstance(part, Truncated)]
        assert not set(truncated) & set(rows)
        assert len(truncated) == len(set(truncated))
        for name, found in rows.items():
            joined.setdefault(name, []).extend(found)
        # a new stream sends the transaction of the start again, with its relations
        at = int(np.searchsorted(WHOLE.lsn, start.lsn))
        again = WHOLE.part(at, len(WHOLE))
        had = count_read(again, start)
        known = relations_after(WHOLE.part(0, at + had), {})
        again = again.part(had, len(again))
        same = decode(again.part(0, count_until(again, end)), known, WANTED)
        assert shown(same) == shown(parts)
    assert joined == rows_by_table(decode(WHOLE, {}, WANTED))
    for found in joined.values():
        orders = [order for order, _ in found]
        assert orders == sorted(set(orders))


def test_an_open_transaction_within_the_limits_needs_more():
    last_commit = np.flatnonzero(WHOLE.kinds == ord("C"))[-1]
    assert cut(WHOLE.part(0, 4), 1000, 1 << 30, ()) is None
    found = cut(WHOLE.part(0, int(last_commit)), 1000, 1 << 30, ())
    assert found is not None
    assert found.count < last_commit
