"""A lookup file finds the rows that were written, and gives their values."""

from __future__ import annotations

import datetime as dt
import fcntl
import os
import random
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from unit.lookup.conftest import found_singly, found_together, type_of

from tidelake.lookup import key_form
from tidelake.lookup.cache import _lock_of
from tidelake.lookup.layout import SLOTS_BEHIND, slots_of
from tidelake.types.arrow import to_arrow_type

GOLDEN = Path(__file__).parents[2] / "golden" / "lookup_file.txt"
VALUES = {
    "BOOLEAN": [True, None, False],
    "TINYINT": [-128, None, 127],
    "SMALLINT": [-1, 2, None],
    "INT": [None, 5, -7],
    "BIGINT": [1 << 60, 5, -7],
    "FLOAT": [0.5, None, -0.0],
    "DOUBLE": [1e300, 2.5, None],
    "DECIMAL(10, 2)": [Decimal("1.25"), None, Decimal("-3.50")],
    "DECIMAL(38, 3)": [Decimal(10) ** 30, None, Decimal("-1.125")],
    "STRING": ["", None, "ü€"],
    "BYTES": [b"\0", None, b""],
    "DATE": [dt.date(1, 1, 1), None, dt.date(2026, 11, 25)],
    "TIME(3)": [dt.time(1, 2, 3, 4000), None, dt.time(0)],
    "TIMESTAMP(3)": [dt.datetime(1969, 1, 1), None, dt.datetime(2026, 1, 1)],
    "TIMESTAMP(6)": [dt.datetime(1969, 1, 1, 1, 1, 1, 5), None, dt.datetime(2026, 1, 1)],
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": [dt.datetime(2026, 1, 1, tzinfo=dt.UTC), None, None],
    pa.list_(pa.int32()): [[1, None], None, []],
    pa.list_(pa.list_(pa.string())): [[["a", None], None], [], [["b"]]],
    pa.map_(pa.string(), pa.int64()): [[("a", 1), ("b", None)], None, []],
    pa.struct(
        {
            "a": pa.int32(),
            "b": pa.list_(pa.string()),
            "c": pa.struct({"d": pa.bool_()}),
        }
    ): [
        {"a": 1, "b": ["x"], "c": {"d": True}},
        None,
        {"a": None, "b": None, "c": None},
    ],
}


def column(kind, copies):
    return pa.array(VALUES[kind] * copies, to_arrow_type(type_of(kind)))


@pytest.mark.parametrize("mapped_bytes", [1 << 30, 0], ids=["mapped", "piece by piece"])
@pytest.mark.parametrize("spool_bytes", [1 << 20, 100], ids=["in memory", "spilled"])
def test_every_value_comes_back(maker, mapped_bytes, spool_bytes):
    kinds = {f"c{number}": kind for number, kind in enumerate(VALUES)}
    stored = maker.stored({"k": "INT NOT NULL"} | kinds)
    rows = {"k": list(range(9))} | {name: column(kind, 3) for name, kind in kinds.items()}
    opened = maker.opened(
        stored, maker.write(stored, rows, cut=2, spool_bytes=spool_bytes), mapped_bytes=mapped_bytes
    )
    assert opened.is_mapped == (mapped_bytes > 0)
    for name in kinds:
        wanted = rows[name].to_pylist()
        assert opened.column(name, rows[name].type).to_pylist() == wanted
        assert [opened.value_of(name)(row) for row in range(9)] == wanted
    assert opened.value_of("added later")(3) is None
    assert opened.column("added later", pa.int8()).to_pylist() == [None] * 9


@pytest.mark.parametrize("mapped_bytes", [1 << 30, 0], ids=["mapped", "piece by piece"])
@pytest.mark.parametrize("kind", ["BIGINT", "SMALLINT", "STRING", "DECIMAL(9, 0)"])
def test_keys_that_are_there_are_found_and_no_others(maker, kind, mapped_bytes):
    stored = maker.stored({"k": f"{kind} NOT NULL"})
    make = {"STRING": lambda n: f"key {n}", "DECIMAL(9, 0)": Decimal}.get(kind, lambda n: n)
    numbers = random.Random(3).sample(range(-3000, 3000), 2000)
    keys = pa.array([make(n) for n in numbers], to_arrow_type(stored.form.types[0]))
    opened = maker.opened(
        stored, maker.write(stored, {"k": keys}, cut=300), mapped_bytes=mapped_bytes
    )
    asked = list(range(-3000, 3000))
    wanted = dict(zip(numbers, range(2000), strict=True))
    column = pa.array([make(n) for n in asked], keys.type)
    rows = found_together(opened, stored.form, [column], len(asked))
    assert rows == [wanted.get(n, -1) for n in asked]
    some = asked[::17]
    as_memory = [str(make(n)) if kind == "STRING" else n for n in some]
    assert found_singly(opened, stored.form, as_memory) == [wanted.get(n, -1) for n in some]


def test_keys_of_one_hash_are_distinguished(maker, monkeypatch):
    """Long chains, hashes of 0, chains over the last home slot."""
    for hashed in (0, 5, 0xFFFFFFFF):
        monkeypatch.setattr(
            key_form, "_integer_hashes", lambda n, h=hashed: np.full(len(n), h, np.uint64)
        )
        monkeypatch.setattr(key_form, "integer_hash", lambda _, h=hashed: h)
        stored = maker.stored({"k": "INT NOT NULL"})
        keys = list(range(4 * SLOTS_BEHIND + 1))
        opened = maker.opened(stored, maker.write(stored, {"k": keys}))
        asked = [*keys, 77, -1]
        wanted = [*keys, -1, -1]
        assert found_singly(opened, stored.form, asked) == wanted
        column = pa.array(asked, pa.int32())
        assert found_together(opened, stored.form, [column], len(asked)) == wanted


def test_a_file_without_rows_finds_nothing(maker):
    stored = maker.stored({"k": "STRING NOT NULL", "v": "INT"})
    opened = maker.opened(stored, maker.write(stored, {"k": [], "v": []}))
    assert found_singly(opened, stored.form, ["a"]) == [-1]
    assert found_together(opened, stored.form, [pa.array(["a", ""])], 2) == [-1, -1]


def test_every_slot_is_at_or_behind_its_home():
    hashes = np.random.default_rng(1).integers(0, 1 << 32, 5000).astype(np.uint64)
    slots, homes = slots_of(hashes)
    filled = np.flatnonzero(slots)
    assert len(filled) == len(hashes)
    assert (filled >= (slots[filled] >> 32) * homes >> 32).all()
    assert not slots[-SLOTS_BEHIND:].any()
    for start in filled:  # no empty slot between a home and its row
        home = int(slots[start] >> 32) * homes >> 32
        assert slots[home : start + 1].all()


def test_the_bytes_are_those_of_version_1(maker):
    stored = maker.stored({"k": "INT NOT NULL", "s": "STRING", "l": pa.list_(pa.int64())})
    rows = {"k": [7, 8, 9], "s": ["a", None, "bc"], "l": [[1], None, []]}
    path, _ = maker.write(stored, rows)
    data = path.read_bytes()
    lines = []
    for at in range(0, len(data), 16):
        piece = data[at : at + 16]
        if any(piece):
            text = "".join(chr(b) if 32 <= b < 127 else "." for b in piece)
            lines.append(f"{at:5}  {piece.hex(' ', 4)}  {text}".rstrip())
    lines.append(f"{len(data):5}")
    assert "\n".join(lines) + "\n" == GOLDEN.read_text(encoding="utf-8")


@pytest.mark.parametrize("damage", ["flip", "cut", "other"])
def test_a_damaged_file_is_refused(maker, damage):
    stored = maker.stored({"k": "INT NOT NULL", "s": "STRING"})
    rows = {"k": list(range(50)), "s": [str(n) for n in range(50)]}
    path, identity = maker.write(stored, rows)
    whole = path.read_bytes()
    if damage == "other":
        with pytest.raises(ValueError, match="made of something else"):
            maker.opened(stored, (path, identity + b"x"))
        return
    for at in range(0, len(whole), 29):
        broken = bytearray(whole)
        if damage == "flip":
            broken[at] ^= 1 << at % 8
        path.write_bytes(broken if damage == "flip" else whole[:at])
        with pytest.raises(ValueError, match=r"it |checksum"):
            maker.opened(stored, (path, identity))
    path.write_bytes(whole)
    assert maker.opened(stored, (path, identity)).rows_count == 50


def test_a_child_that_was_forked_under_the_lock_of_a_file_does_not_keep_it(tmp_path):
    path = tmp_path / "a.lookup"
    reads, writes = os.pipe()
    with _lock_of(path):
        child = os.fork()
        if not child:
            os.close(writes)
            os.read(reads, 1)  # until the parent is done; it has the file of the lock open
            os._exit(0)
    try:
        with path.with_name("a.lookup.lock").open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(writes)
        os.close(reads)
        os.waitpid(child, 0)
