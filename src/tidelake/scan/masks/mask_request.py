"""What must be known of a section before its files can be read under masks.

1. The rule of the section (:mod:`tidelake.scan.masks.rule`) says which other files may hide rows
   of a file: those of newer runs, of older runs, or both; of them those whose key ranges meet its
   own. A file with none and without deletes needs no mask.
2. The cache gives the mask for the largest known part of these files. The others are *fresh*.
3. Of a file and one that is fresh to it, that of the newer run is *held*: its keys are kept in
   memory, and the keys of the other stream past. Newer runs are the smaller ones.

The columns of the key keep their ids and types for ever, so nothing else decides. What decides in a
merge may be altered; it is part of what such a mask is kept under (:func:`_deciding`).

A row that the vector of another file deletes hides nothing, so the vector is part of that file's
name. Where older files hide rows, it is also part of what the mask of its own file is kept under.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter

from tidelake.format import orc_zone_moves
from tidelake.merge import FileKeys, KeyRank, MergeSpec
from tidelake.metadata.data_file import DataFileMeta
from tidelake.scan.context import ReadContext
from tidelake.scan.masks.cache import MaskCache, NewerFiles
from tidelake.scan.masks.hidden_rows import HiddenRows
from tidelake.scan.masks.rule import MaskRule, mask_rule, ordered_runs
from tidelake.scan.split import Run, Section, Split

DIGEST_BYTES = 20


@dataclass(frozen=True, slots=True)
class FileMask:
    """A file of a section, and which files may hide rows of it.

    Parameters
    ----------
    run : int
        Its run: 0 is the oldest.
    others : tuple of DataFileMeta
        The files that may hide rows of it.
    """

    file: DataFileMeta
    run: int
    others: tuple[DataFileMeta, ...]
    path: str
    names: NewerFiles
    known: HiddenRows | None = None
    fresh: tuple[DataFileMeta, ...] = ()

    @property
    def is_known(self) -> bool:
        """Whether the cache knew the mask."""
        return self.known is not None and not self.fresh


@dataclass(frozen=True, slots=True)
class MaskRequest:
    """A section whose masks are wanted, with what the cache knows of them.

    Parameters
    ----------
    section : Section
        Its runs, oldest first.
    runs : tuple of Run
        The same files by the runs that count, oldest first.
    """

    split: Split
    section: Section
    runs: tuple[Run, ...]
    files: tuple[FileMask, ...]
    rule: MaskRule = MaskRule.NEWEST

    @classmethod
    def of(
        cls, context: ReadContext, split: Split, section: Section, spec: MergeSpec, cache: MaskCache
    ) -> MaskRequest:
        """Look up what the cache knows; no file is read."""
        rule = mask_rule(section, spec)
        runs = tuple(run for _, run in ordered_runs(section, spec))
        if rule is MaskRule.MERGE:
            files = _all_files(context, split, runs, spec, cache)
            return cls(split, section, runs, files, rule)
        name = partial(_name_of, split, rule)
        ranges = [_Run.of(run, spec) for run in runs]
        found = []
        for number, run in enumerate(ranges):
            older = ranges[:number] if rule.hides_newer else []
            newer = ranges[number + 1 :] if rule.hides_older else []
            for file, low, high in zip(run.files, run.lows, run.highs, strict=True):
                others = tuple(f for run in (*older, *newer) for f in run.meeting(low, high))
                if others or file.delete_row_count != 0:
                    named = {name(other): other for other in others}
                    key = _kept_under(context, split, file, rule)
                    found.append(_looked_up(file, number, key, named, cache))
        return cls(split, section, runs, tuple(found), rule)

    @property
    def held(self) -> dict[str, DataFileMeta]:
        """The files whose keys must be looked up in others, by name; or that are merged."""
        if self.rule is MaskRule.MERGE:
            return {} if self.is_known else {m.file.file_name: m.file for m in self.files}
        run_of = self.run_of
        return {
            held.file_name: held
            for mask in self.files
            for other in mask.fresh
            for held in [mask.file if run_of[other.file_name] < mask.run else other]
        }

    @property
    def streamed(self) -> set[str]:
        """The names of the files whose keys are read past those that are held."""
        run_of = self.run_of
        older = {
            (other if run_of[other.file_name] < mask.run else mask.file).file_name
            for mask in self.files
            for other in mask.fresh
        }
        unknown = {mask.file.file_name for mask in self.files if mask.known is None}
        return older | (unknown - self.held.keys())  # of the latter, the kinds are wanted alone

    @property
    def run_of(self) -> dict[str, int]:
        """The number of each file's run."""
        return {f.file_name: number for number, run in enumerate(self.runs) for f in run}

    @property
    def is_known(self) -> bool:
        """Whether the cache knows all masks."""
        return all(mask.is_known for mask in self.files)

    @property
    def digest(self) -> bytes:
        """Names what must be computed."""
        # where the merge decides, a path holds all names already
        by_merge = self.rule is MaskRule.MERGE
        unknown = (
            (mask.path, () if by_merge else sorted(file.file_name for file in mask.fresh))
            for mask in self.files
            if mask.fresh
        )
        named = repr((sorted(unknown), sorted(self.split.deletions.items(), key=itemgetter(0))))
        return hashlib.blake2b(named.encode(), digest_size=DIGEST_BYTES).digest()


def rows_to_read(request: MaskRequest) -> int:
    """Rows whose keys are read to compute what is not known."""
    if request.rule is MaskRule.MERGE:
        return sum(mask.file.row_count for mask in request.files if not mask.is_known)
    names = request.streamed | request.held.keys()
    return sum(f.row_count for run in request.runs for f in run if f.file_name in names)


@dataclass(frozen=True, slots=True)
class _Run:
    """The files of a run with their key ranges, both in key order."""

    files: tuple[DataFileMeta, ...]
    lows: list[KeyRank]
    highs: list[KeyRank]

    @classmethod
    def of(cls, run: Sequence[DataFileMeta], spec: MergeSpec) -> _Run:
        files = tuple(run)
        ranks = [FileKeys.of(spec).ranks_of(file) for file in files]
        return cls(files, [low for low, _ in ranks], [high for _, high in ranks])

    def meeting(self, low: KeyRank, high: KeyRank) -> tuple[DataFileMeta, ...]:
        """The files that may have a key of the range, ends included."""
        return self.files[bisect_left(self.highs, low) : bisect_right(self.lows, high)]


def _looked_up(
    file: DataFileMeta, run: int, path: str, named: Mapping[str, DataFileMeta], cache: MaskCache
) -> FileMask:
    others, names = tuple(named.values()), frozenset(named)
    known = cache.nearest(path, names)
    if known is None:
        return FileMask(file, run, others, path, names, None, others)
    covered, hidden = known
    fresh = tuple(f for name, f in named.items() if name not in covered)
    return FileMask(file, run, others, path, names, hidden, fresh)


def _all_files(
    context: ReadContext, split: Split, runs: Sequence[Run], spec: MergeSpec, cache: MaskCache
) -> tuple[FileMask, ...]:
    """The masks that the merge of all files decides; each depends on all of them."""
    files = tuple(file for run in runs for file in run)
    names = (_name_of(split, MaskRule.MERGE, file) for file in files)
    others = "|".join([_deciding(context, spec), *names])
    # a digest: else n files would be kept under n texts of n names each
    digest = hashlib.blake2b(others.encode(), digest_size=DIGEST_BYTES).hexdigest()
    found = []
    for number, run in enumerate(runs):
        for file in run:
            path = context.paths.data_file(split.partition, split.bucket, file)
            key = f"{path}|{digest}"
            known = cache.nearest(key, frozenset())
            hidden, fresh = (None, files) if known is None else (known[1], ())
            found.append(FileMask(file, number, files, key, frozenset(), hidden, fresh))
    return tuple(found)


def _deciding(context: ReadContext, spec: MergeSpec) -> str:
    """What decides besides the files: the columns by id and type, for names come again.

    A file has its columns by id, and they are read as the type of the schema that is read with.
    """
    columns = context.fields((*spec.key_columns, *spec.sequence_columns))
    named = [(field.id, str(field.type)) for field in columns]
    rules = (spec.engine, spec.sequence_descending, spec.ignore_delete)
    reads = (context.env.zone, orc_zone_moves(context.options))
    return repr((len(spec.key_columns), named, rules, reads))


def _kept_under(context: ReadContext, split: Split, file: DataFileMeta, rule: MaskRule) -> str:
    """What the masks of a file by a rule are kept under.

    Where older files hide rows, those that the file's own vector deletes are not looked up.
    """
    path = context.paths.data_file(split.partition, split.bucket, file)
    if rule is MaskRule.NEWEST:
        return path
    level = file.level if rule is MaskRule.OLDEST else ""
    return f"{path}|{rule.value}{level}|{_name(split, file)}"


def _name_of(split: Split, rule: MaskRule, file: DataFileMeta) -> str:
    """A file that hides rows: its live rows, and its level if that decides.

    A compaction may give a file another level as it is.
    """
    name = _name(split, file)
    return f"{name}@{file.level}" if rule in (MaskRule.OLDEST, MaskRule.MERGE) else name


def _name(split: Split, file: DataFileMeta) -> str:
    """A file with its live rows: its name, and its vector if it has one."""
    where = split.deletions.get(file.file_name)
    return file.file_name if where is None else f"{file.file_name}|{where.path}:{where.offset}"
