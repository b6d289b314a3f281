"""Roaring bitmaps of 32-bit numbers as bytes, one container after the other, in plain Python.

Written from the RoaringBitmap format specification; it shares no code with the product. A container
is written in its smallest form, as Java does after ``runOptimize``.
"""

from __future__ import annotations

import struct


class Bitmap(bytes):
    """The bytes of a bitmap that know their numbers.

    >>> Bitmap({1, 5}).hex()
    '3a30000001000000000001001000000001000500'
    """

    def __new__(cls, numbers):
        numbers = frozenset(numbers)
        by_high: dict[int, list[int]] = {}
        for number in sorted(numbers):
            by_high.setdefault(number >> 16, []).append(number & 0xFFFF)
        forms = [_smallest(lows) for lows in by_high.values()]
        count, with_runs = len(forms), any(is_run for is_run, _ in forms)
        head = struct.pack("<II", 12346, count)
        if with_runs:
            flags = sum(is_run << at for at, (is_run, _) in enumerate(forms))
            head = struct.pack("<I", 12347 | (count - 1) << 16)
            head += flags.to_bytes((count + 7) // 8, "little")
        for high, lows in by_high.items():
            head += struct.pack("<HH", high, len(lows) - 1)
        if not with_runs or count >= 4:
            at = len(head) + 4 * count
            for _, body in forms:
                head += struct.pack("<I", at)
                at += len(body)
        self = super().__new__(cls, head + b"".join(body for _, body in forms))
        self.numbers = numbers  # type: ignore[attr-defined]
        return self

    def __getnewargs__(self):  # a copy is made of the numbers, not of the bytes
        return (self.numbers,)  # type: ignore[attr-defined]


def _smallest(lows):
    """Whether the container holds runs, and its bytes."""
    runs: list[list[int]] = []
    for low in lows:
        if runs and low == runs[-1][0] + runs[-1][1] + 1:
            runs[-1][1] += 1
        else:
            runs.append([low, 0])
    if 2 + 4 * len(runs) < min(2 * len(lows), 8192):
        return True, struct.pack("<H", len(runs)) + b"".join(struct.pack("<HH", *r) for r in runs)
    if len(lows) > 4096:
        return False, sum(1 << low for low in lows).to_bytes(8192, "little")
    return False, struct.pack(f"<{len(lows)}H", *lows)
