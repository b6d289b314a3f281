"""Divides planned changes between Spark's scan and the kernel.

1. A part of one split holds rows as they were written. If Spark reads a file of it as the kernel
   does, Spark scans it: rows of a table without primary key are ``+I``, others bring their kind.
2. A part with files only on the after side is a state: its files are read as in a batch read
   (:mod:`tidelake.spark.read.native_split`), all rows ``+I``.
3. The kernel reads everything else, mainly net changes of a bucket, and changes with old rows that
   are filtered (:class:`tidelake.table.changelog.change_filter.UpdateFilter`).

**Order.** Spark reads the files of a scan in its own order. If the order of a bucket's rows matters
(*ordered*), all parts of a bucket are one unit, which one task reads in the order of the commits. A
unit may be scanned only if it is one file that Spark does not cut, or one state, in which every key
occurs once.


A caller that makes the tasks itself has whole files read in their order. Then every unit of files
that are only read is *plain* (:func:`plain_units`), however large.

Memory of the plan: that of the splits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pyspark.sql import SparkSession

from tidelake.engine.scan import ReadContext, Split
from tidelake.engine.streams import ChangePart
from tidelake.spark.read.native_scan import NativeFiles, NativeGroup
from tidelake.spark.read.native_split import native_and_merged
from tidelake.spark.read.native_storage import NativeStorage
from tidelake.types import DataField

_CUT_BY = {
    "spark.sql.files.openCostInBytes": "4194304b",
    "spark.sql.files.maxPartitionBytes": "134217728b",
}
"""Spark cuts files above the smaller of these settings, or above a larger size; with defaults."""


@dataclass(frozen=True, slots=True)
class ChangeUnit:
    """Parts that one task reads in order."""

    parts: tuple[ChangePart, ...]


@dataclass(slots=True)
class NativeChanges:
    """The files of planned changes, by reader.

    Parameters
    ----------
    inserts, kinds : list of NativeGroup
        Files that Spark scans: all rows ``+I``, or with their own kinds.
    """

    inserts: list[NativeGroup] = field(default_factory=list)
    kinds: list[NativeGroup] = field(default_factory=list)
    units: list[ChangeUnit] = field(default_factory=list)


def native_changes(
    context: ReadContext,
    parts: Iterable[ChangePart],
    fields: Sequence[DataField],
    *,
    case_sensitive: bool,
    ordered: bool,
    uncut_bytes: int,
    storage: NativeStorage | None = None,
    only_states: bool = False,
) -> NativeChanges:
    """Give Spark the files of planned changes that it can scan, and the kernel all others.

    Parameters
    ----------
    parts : iterable of ChangePart
        In order of the changes.
    case_sensitive : bool
        Whether the session distinguishes ``a`` from ``A``.
    ordered : bool
        Whether the rows of a bucket must come in order, in one task.
    uncut_bytes : int
        The size up to which Spark reads a file in one task.
    storage : NativeStorage, optional
        What Spark does with the storage; else it reads local files alone.
    only_states : bool
        Whether the kernel reads all changes: each row needs the one behind it.

    Notes
    -----
    Runs on the driver. Pure.
    """
    found = NativeChanges()
    keyed = bool(context.schema.primary_keys)
    written = NativeFiles(context, fields, case_sensitive=case_sensitive, storage=storage)
    states: list[Split] = []
    for unit in change_units(parts, ordered=ordered):
        if all(is_state(part) for part in unit.parts):
            states += [part[-1] for part in unit.parts]
        elif not only_states and _may_scan(
            unit, ordered=ordered, keyed=keyed, uncut_bytes=uncut_bytes
        ):
            rest = [left for part in unit.parts for left in _take(written, part)]
            found.units += [ChangeUnit((part,)) for part in rest]
        else:
            found.units.append(unit)
    if states:
        state = native_and_merged(
            context, states, fields, case_sensitive=case_sensitive, storage=storage
        )
        found.inserts += state.native
        found.units += [ChangeUnit(((split.part(()), split),)) for split in state.merged]
    (found.kinds if keyed else found.inserts).extend(written.groups())
    return found


@dataclass(frozen=True, slots=True)
class PlainFile:
    """A file whose rows are given as they are stored."""

    path: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class PlainUnit:
    """Files that one task reads in order; if they may be cut, any tasks in any order."""

    files: tuple[PlainFile, ...]
    may_cut: bool

    @property
    def size_bytes(self) -> int:
        """Bytes of all files."""
        return sum(file.size_bytes for file in self.files)


def plain_units(
    context: ReadContext,
    parts: Iterable[ChangePart],
    fields: Sequence[DataField],
    *,
    case_sensitive: bool,
    ordered: bool,
    storage: NativeStorage | None = None,
) -> list[PlainUnit] | None:
    """Give planned changes as files that Spark's reader only has to read; None if some need more.

    Rows of a table without primary key are ``+I``, others bring their kind.

    Notes
    -----
    Runs on the driver. Pure.
    """
    keyed = bool(context.schema.primary_keys)
    native = NativeFiles(context, fields, case_sensitive=case_sensitive, storage=storage)
    found = []
    for unit in change_units(parts, ordered=ordered):
        files = []
        for part in unit.parts:
            split = part[-1]
            if len(part) > 1 and (keyed or not is_state(part)):
                return None
            for file in split.files:
                path = native.plain_path(split, file)
                if path is None or file.file_name in split.deletions:
                    return None
                files.append(PlainFile(path, file.file_size_bytes))
        found.append(PlainUnit(tuple(files), may_cut=not (ordered or keyed)))
    return found


def uncut_bytes_max(spark: SparkSession) -> int:
    """The size of a file up to which Spark reads it in one task; 0 if unknown."""
    texts = (spark.conf.get(key, text) or "" for key, text in _CUT_BY.items())
    sizes = [text.strip().lower().removesuffix("b") for text in texts]
    return min(int(size) if size.isdecimal() else 0 for size in sizes)


def change_units(parts: Iterable[ChangePart], *, ordered: bool) -> Iterable[ChangeUnit]:
    """Parts as units, in order: all of a bucket, or each alone."""
    if not ordered:
        return (ChangeUnit((part,)) for part in parts)
    of_bucket: dict[tuple[bytes, int], list[ChangePart]] = {}
    for part in parts:
        of_bucket.setdefault((part[0].partition, part[0].bucket), []).append(part)
    return [ChangeUnit(tuple(own)) for own in of_bucket.values()]


def is_state(part: ChangePart) -> bool:
    """Say whether all rows of a part belong to a state: ``+I``."""
    *before, _ = part
    return bool(before) and not any(split.files_count for split in before)


def _may_scan(unit: ChangeUnit, *, ordered: bool, keyed: bool, uncut_bytes: int) -> bool:
    """Whether the unit's files may be read in any order."""
    if any(len(part) > 1 or part[0].of_keys != "all" for part in unit.parts):
        return False
    if not (ordered or keyed):
        return True
    # in one commit a key's changes may be in several files of a bucket, or on both sides of a cut
    files = [file for part in unit.parts for file in part[0].files]
    return len(files) == 1 and files[0].file_size_bytes <= uncut_bytes


def _take(native: NativeFiles, part: ChangePart) -> list[ChangePart]:
    """Give Spark the files of a part that it may scan; the rest is for the kernel."""
    [split] = part
    left = tuple(
        file
        for file in split.files
        if file.file_name in split.deletions or not native.readable(split, file)
    )
    for file in split.files:
        if file not in left:
            native.add(split, file)
    return [(split.part(((left,),)),)] if left else []
