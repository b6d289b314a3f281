"""Parts a planned read into what Spark scans itself and what the kernel merges.

1. Raw splits: native, file by file.
2. A section with a single run: every key is there once, so no merge is needed; native, and deletes
   are left out by their kind.
3. Everything else: merged by the kernel.

Tried and left out: to scan a large old run natively and hide the keys of the newer runs by a
broadcast anti-join. 5 M rows under 2 % newer ones, CPU against a plain scan: 1.4 to 1.6 x for six
columns and 2.6 x for one, where the merge in Python took 1.4 to 1.7 x and 2.1 x; a probe of the
hash table costs 0.2 us a row, the broadcast half a second.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tidelake.scan import ReadContext, Section, Split
from tidelake.spark.native import NativeFiles, NativeGroup
from tidelake.types import DataField

__all__ = ["Halves", "part"]


@dataclass(frozen=True, slots=True)
class Halves:
    """A read, parted.

    Parameters
    ----------
    native : list of NativeGroup
        Files that Spark scans.
    merged : list of Split
        For the kernel.
    """

    native: list[NativeGroup]
    merged: list[Split]


def part(
    context: ReadContext,
    splits: Sequence[Split],
    fields: Sequence[DataField],
    *,
    case_sensitive: bool,
) -> Halves:
    """Part the splits of one plan.

    Parameters
    ----------
    context : ReadContext
        The table.
    splits : sequence of Split
        Of one plan.
    fields : sequence of DataField
        The columns needed, those of the predicate included.
    case_sensitive : bool
        Whether the session tells ``a`` from ``A``.

    Notes
    -----
    Runs on the driver. Pure.
    """
    native = NativeFiles(context, fields, case_sensitive=case_sensitive)
    merged = [left for split in splits for left in _take(native, split)]
    return Halves(native.groups(), merged)


def _take(native: NativeFiles, split: Split) -> Iterator[Split]:
    """Give Spark what it may scan of a split; what is left is for the kernel."""
    if split.raw:
        left = tuple(f for f in split.files if not native.readable(split, f))
        for file in split.files:
            if file not in left:
                native.add(split, file)
        if left:
            yield replace(split, sections=((left,),))
        return
    rest = tuple(s for s in split.sections if not _take_section(native, split, s))
    if rest:
        yield replace(split, sections=rest)


def _take_section(native: NativeFiles, split: Split, section: Section) -> bool:
    if len(section) != 1 or not all(native.readable(split, f) for f in section[0]):
        return False
    for file in section[0]:
        native.add(split, file, live_only=file.delete_row_count != 0)
    return True
