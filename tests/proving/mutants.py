"""Planted bugs: each is put into the engine, and the checks must notice.

A check that never fails proves nothing. Every mutant changes one thing that a plausible mistake
would change; `hunt` runs the checks from the cheapest to the dearest and says which one caught it.

A mutant of what a merge engine does to a column is hunted by the model runs alone: those of
`make sim-full`, as long as these are, that draw a table on which it can be met. One of what happens
between processes is hunted by the runs in which several meet, from seed 0 on.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

import tidelake.commit.conflicts.compaction_fit as compaction_fit
import tidelake.commit.conflicts.file_conflicts as conflict
import tidelake.commit.conflicts.index_conflicts as index_conflicts
import tidelake.commit.conflicts.key_overlap as key_overlap
import tidelake.commit.expiry.snapshots as expiry
import tidelake.commit.idempotence as idempotence
import tidelake.commit.plans as plans
import tidelake.commit.store_snapshot_commit as store_commit
import tidelake.merge.column_rules as column_rules
import tidelake.merge.engines.aggregation as aggregation
import tidelake.merge.engines.engine as engine
import tidelake.merge.engines.fold_columns as fold_columns
import tidelake.merge.functions.arithmetic as arithmetic
import tidelake.merge.functions.function as function
import tidelake.merge.functions.joined_text as joined_text
import tidelake.merge.functions.selection as selection
import tidelake.merge.runs.changelog as merge_changes
import tidelake.merge.spec as spec
import tidelake.scan.pruning.prune_columns as prune_columns
import tidelake.scan.split_generator as split_generator
import tidelake.store.deletion_vectors as deletion_vectors
import tidelake.store.lsm.bucket_writer as bucket_writer
import tidelake.store.lsm.compaction as compaction
import tidelake.store.lsm.lookup as lookup
import tidelake.table.bucketing.cross_partition_assigner as key_places
import tidelake.table.bucketing.dynamic_buckets as dynamic_buckets
import tidelake.table.handle.handle as handle
import tidelake.table.table as table
import tidelake.table.write.transaction as transaction
from proving import (
    concurrent,
    directed,
    episode,
    faults,
    frames,
    interleave,
    late_puts,
    lookup_checks,
    lookup_mutants,
    mask_checks,
    mask_mutants,
    moments,
    pipeline_mutants,
    store_faults,
    store_mutants,
    stream_checks,
    stream_mutants,
)
from proving.planting import Plant, edited, passed_over, replaced
from proving.world import Shape, draw_shape
from tidelake.commit.expiry.consumers import HeldSnapshots
from tidelake.commit.expiry.tags_and_branches import References
from tidelake.errors import CorruptError, TidelakeError
from tidelake.fileio import MemoryFileIO, OpenDirectory
from tidelake.merge import FileKeys, merge_buffer
from tidelake.merge.engines.first_row import FirstRow
from tidelake.merge.engines.partial_update import PartialUpdate
from tidelake.merge.runs.spill import SpillStack
from tidelake.metadata import EntryTable, SnapshotLog
from tidelake.metadata.data_file import FileKind
from tidelake.scan import ReadContext
from tidelake.store import LsmBucketWriter
from tidelake.store.lsm.lookup_strategy import LookupStrategy
from tidelake.store.lsm.read_file import BucketReader
from tidelake.table.handle.time_travel import TimeTravel
from tidelake.testing import FaultMode
from tidelake.types import RowKind

SEEDS = 12
STEPS = 25
MODEL_RUNS, MODEL_STEPS = 5000, 50  # of `make sim-full`
MODEL_RUNS_MAX = 6  # so many tables on which it can be met
MEETINGS = 60  # of `make concurrent-full`


@dataclass(frozen=True)
class Mutant:
    """A planted bug."""

    name: str
    caught_by: str
    """The first check, in the order of :func:`hunt`, that notices it."""
    plant: Plant
    meets: Callable[[Shape], bool] | None = None
    """Tables on which a model run can meet it; None of one that all checks hunt."""
    meeting: int | None = None
    """The first run in which processes meet that notices it; None of one that others hunt."""


def _publish_by_rename(_):
    def put_if_absent(self: MemoryFileIO, path: str, data: bytes, **held: OpenDirectory) -> bool:
        self.replace(path, data, **held)
        return True

    return put_if_absent


def _takes_lifted_for_removed(_):
    def removed_by(context, snapshot):
        delta = context.delta(snapshot)
        return delta.take(delta["kind"] == FileKind.DELETE)

    return removed_by


def _off_by_one(original):
    return lambda positions, **named: original(np.maximum(positions - 1, 0), **named)


def _nothing_held(_):
    return lambda *_: HeldSnapshots(None, by_lease=False, forgotten=())


def _sequence_restarts(original):
    def init(self, *arguments, **named):
        original(self, *arguments, **named)
        self._next_sequence = 0

    return init


def _prunes_too_much(original):
    def compared(op, literal, ranges):
        verdict = original(op, literal, ranges)
        if op in {"==", "<="}:  # an inclusive bound taken for an exclusive one
            verdict = np.minimum(verdict, original("<", literal, ranges))
        return verdict

    return compared


def _keeps_older(_):
    def merge(self, rows, segments):
        winners = segments.order[segments.starts]
        return engine.Merged(winners, segments.kinds[winners])

    return merge


def _always_drops_deletes(original):
    return lambda runs, spec, *, drop_deletes, **named: original(
        runs, spec, drop_deletes=True, **named
    )


def _ignores_sequence_field(original):
    @classmethod
    def of(cls, schema, options):
        made = original(schema, options)
        return replace(made, sequence_columns=(), sequence_types=())

    return of


def _trusts_hint(original):
    def newest(self, hint):
        return original(self, hint) if hint is None else (hint, self._seen(hint))

    return newest


def _believes_a_hint_ahead(original):
    def newest(self, hint):
        found = original(self, hint)
        if hint is not None and hint > (found[0] if found else 0):
            raise CorruptError(f"Snapshot {hint} is gone.", kind="snapshot_gone")
        return found

    return newest


def _looks_for_its_number(_):
    def has_base(self, base):
        return base is None or self._fileio.exists(self._paths.snapshot(base.id))

    return has_base


def _loses_spilled_rows(original):
    return lambda self: original(self)[1:]


def _forgets_removed_files(original):
    @classmethod
    def fold(cls, tables, *, where="the table"):
        entries = cls.concat(tables)
        return entries.take(entries["kind"] == FileKind.ADD)

    return fold


def _counts_physical_rows(original):
    def count(self, **scan):
        newest = self._handle.snapshots.latest()
        return original(self, **scan) if scan or newest is None else newest.total_record_count

    return count


def _travels_to_latest(original):
    return lambda self, snapshot_id: original(self, max(snapshot_id, self._snapshots.latest_id()))


def _skips_level_0(_):
    return property(lambda self: self.keys_stand_alone and not self.all_rows)


def _skips_last_step(original):
    def carry_out(reader, steps, picked, **named):
        return original(reader, steps[:-1] or steps, picked, **named)

    return carry_out


def _loses_last_step(original):
    def carry_out(reader, steps, picked, **named):
        done = original(reader, steps[:-1] or steps, picked, **named)
        return replace(done, before=picked.files)  # taken away, and not all of it written anew

    return carry_out


def _deletes_compacted(original):
    def carry_out(reader, steps, picked, **named):
        done = original(reader, steps, picked, **named)
        kept = {file.file_name for file in done.after}
        for file in done.before:
            if file.file_name not in kept:
                reader.context.fileio.delete(reader.path_of(file))
        return done

    return carry_out


def _never_ours(_):
    return lambda self, kind, base: None


class _NeverRaised(TidelakeError):
    """Stands where the outcome was known to be unknown."""


def _without_deletes(original):
    def merge_buffer(batches, merge_spec, **memory):
        merged = original(batches, merge_spec, **memory)
        kinds = np.asarray(merged["_VALUE_KIND"])
        return merged.filter((kinds & 1) == 0)

    return merge_buffer


def _indexes_are_not_compared(_):
    return lambda self, read_id, now: {}


def _index_is_forgotten(original):
    def with_index(self, message):
        whole = original(self, message)
        if whole.index is None or whole.bucket == 0:
            return whole
        return replace(whole, index=replace(whole.index, file=None))

    return with_index


def _keys_are_not_found(_):
    return lambda self, keys, live_keys: np.full(keys.num_rows, -1, np.int64)


def _without_rows_before(original):
    def with_kinds(rows, kinds):
        made = original(rows, kinds)
        return made.filter(pa.array(np.asarray(made["_VALUE_KIND"]) != RowKind.UPDATE_BEFORE))

    return with_kinds


def _looks_up_the_oldest(original):
    def of(self, picked, levels, changelog):
        made = original(self, picked, levels, changelog)
        return made and replace(made, beneath=made.beneath[-1:])

    return of


def _marks_nothing(original):
    def of(self, picked, levels, changelog):
        made = original(self, picked, levels, changelog)
        return made and replace(made, marks=False)

    return of


def _reads_what_is_deleted(_):
    return lambda self, files, fields, batch_bytes, **_: self.physical_batches(
        files, fields, batch_bytes
    )


def _finds_what_is_deleted(original):
    def by_file(reader, files, found):
        blind = replace(reader, deleted_of=lambda _: np.zeros(0, np.int64))
        return original(blind, files, found)

    return by_file


def _logs_what_is_merged(_):
    def sort_buffer(batches, merge_spec, **memory):
        return iter([merge_buffer(batches, merge_spec, **memory)])

    return sort_buffer


def _newest_first(_):
    def in_order_of_age(events, actions):
        segment = np.repeat(np.arange(len(events.starts)), events.lengths)
        return events.at[np.lexsort((-events.at, segment))]

    return in_order_of_age


def _not_distinct(original):
    return lambda *rows, distinct, **settings: original(*rows, distinct=False, **settings)


_PLANTED = (
    # name; what catches it; where it is, and what stands there instead
    (
        "the index of another writer is passed over",
        "check_dynamic_writers_of_one_base",
        (index_conflicts.HashIndexChanges, "_rebased", _indexes_are_not_compared),
    ),
    (
        "new buckets come into no index",
        "check_dynamic_writers_of_one_base",
        (dynamic_buckets.DynamicBuckets, "with_index", _index_is_forgotten),
    ),
    (
        "a key that moves stays where it was",
        "check_keys_move_between_partitions",
        (key_places.CrossPartitionAssigner, "_bucket_numbers", _keys_are_not_found),
    ),
    (
        "publish replaces what is there",
        "check_two_writers",
        (MemoryFileIO, "put_if_absent", _publish_by_rename),
    ),
    (
        "levels where keys were looked up are not compared",
        "check_two_lookups",
        (conflict, "_check_looked_up", passed_over),
    ),
    ("no duplicate check", "check_zombie", (idempotence.DuplicateCheck, "find", _never_ours)),
    (
        "a base counts as the same by its number alone",
        "check_base_of_another_history",
        (store_commit.StoreSnapshotCommit, "_has_base", _looks_for_its_number),
    ),
    (
        "files deleted though the outcome is unknown",
        "check_unknown_outcome",
        (transaction, "OutcomeUnknownError", lambda _: _NeverRaised),
    ),
    (
        "sequence numbers restart",
        "check_unknown_outcome",
        (LsmBucketWriter, "__init__", _sequence_restarts),
    ),
    ("a hint is trusted", "check_hints", (SnapshotLog, "_newest", _trusts_hint)),
    ("removed files stay live", "check_two_writers", (EntryTable, "fold", _forgets_removed_files)),
    ("the older row wins", "check_two_writers", (engine.Deduplicate, "merge", _keeps_older)),
    (
        "reads keep deleted rows",
        "check_compaction_of_several_sections",
        (engine.Merged, "without_retracts", lambda _: lambda self: self),
    ),
    (
        "sequence.field is ignored",
        "check_sequence_field",
        (spec.MergeSpec, "of", _ignores_sequence_field),
    ),
    (
        "flush drops deletes",
        "check_deletes_above_a_large_run",
        (bucket_writer, "merge_buffer", _without_deletes),
    ),
    (
        "compaction always drops deletes",
        "check_deletes_above_a_large_run",
        (compaction, "merge_bounded", _always_drops_deletes),
    ),
    (
        "a compaction step is skipped",
        "check_compaction_of_several_sections",
        (bucket_writer, "carry_out", _skips_last_step),
    ),
    (
        "a compaction step is lost",
        "check_compaction_of_several_sections",
        (bucket_writer, "carry_out", _loses_last_step),
    ),
    (
        "compacted files are deleted",
        "check_two_writers",
        (bucket_writer, "carry_out", _deletes_compacted),
    ),
    ("a spilled run is lost", "check_spilled_write", (SpillStack, "runs", _loses_spilled_rows)),
    (
        "a changelog without its -U",
        "check_changelog_of_full_compactions",
        (merge_changes, "_with_kinds", _without_rows_before),
    ),
    (
        "a lookup finds nothing",
        "check_two_lookups",
        (compaction, "find_rows", lambda _: lambda *_, **__: ()),
    ),
    (
        "a lookup reads a stale level",
        "check_two_lookups",
        (LookupStrategy, "of", _looks_up_the_oldest),
    ),
    (
        "the newest row is taken for the first",
        "check_first_rows",
        (FirstRow, "merge", lambda _: lambda _, *rows: engine.Deduplicate().merge(*rows)),
    ),
    (
        "a late text is joined behind the others",
        "check_late_rows",
        (joined_text, "in_order_of_age", lambda _: lambda events, actions: events.at),
    ),
    (
        "a late row has no first value",
        "check_late_rows",
        (selection, "_first", edited("(older & ~keeps) | ", "")),
    ),
    ("doubles are collected", "check_late_rows", (function, "collect", _not_distinct)),
    (
        "parts of texts are joined twice",
        "check_late_rows",
        (function, "joined_text", _not_distinct),
    ),
    (
        "rows are merged before they are logged",
        "check_changelog_of_the_input",
        (bucket_writer, "sort_buffer", _logs_what_is_merged),
    ),
    (
        "statistics prune too much",
        "check_bounds_are_inclusive",
        (prune_columns, "_compared", _prunes_too_much),
    ),
    (
        "count counts physical rows",
        "check_count_with_deletes",
        (table.Table, "count", _counts_physical_rows),
    ),
    (
        "a deletion vector is off by one",
        "check_deletion_vectors",
        (deletion_vectors, "encode_vector", _off_by_one),
    ),
    (
        "the deletion vectors of another commit are passed over",
        "check_deletion_vectors",
        (compaction_fit, "check_deletions", passed_over),
    ),
    (
        "an update looks at no commit since its rows were read",
        "check_two_updates",
        (plans, "check_rows_unchanged", passed_over),
    ),
    (
        "an update compares its keys with the first commit since alone",
        "check_two_commits_beside_an_update",
        (
            key_overlap.KeyOverlap,
            "_common",
            edited("[]).append(replace(theirs, keys=own))", "[replace(theirs, keys=own)])"),
        ),
    ),
    (
        "a rewrite looks at no commit since its files were read",
        "check_two_updates",
        (plans, "check_deletions", passed_over),
    ),
    (
        "reads leave out what is not compacted",
        "check_whole_commits",
        (ReadContext, "skips_level_0", _skips_level_0),
    ),
    (
        "files above level 0 are not merged with it",
        "check_whole_commits",
        (split_generator, "meets_any", lambda _: lambda ranges, _others: [False] * len(ranges)),
    ),
    (
        "what a lookup finds is not marked",
        "check_marks_of_lookups",
        (LookupStrategy, "of", _marks_nothing),
    ),
    (
        "a compaction reads rows that are deleted",
        "check_marks_of_lookups",
        (BucketReader, "batches", _reads_what_is_deleted),
    ),
    (
        "a lookup finds rows that are deleted",
        "check_marks_of_lookups",
        (lookup, "_by_file", _finds_what_is_deleted),
    ),
    (
        "a lookup takes a clustered file for one in key order",
        "check_keys_of_clustered_files",
        (lookup, "rows_in_key_order", lambda _: lambda _reader, batches, *_, **__: batches),
    ),
    (
        "the bounds of a clustered file are taken for keys",
        "check_keys_of_clustered_files",
        (FileKeys, "in_order", lambda _: lambda *_: True),
    ),
    (
        "an expiry looks at no tag",
        "check_expiry",
        (References, "_nearest", lambda _: lambda *_: iter(())),
    ),
    ("an expiry looks at no consumer", "check_expiry", (expiry, "held_snapshots", _nothing_held)),
    (
        "an expiry takes a lifted file for removed",
        "check_expiry",
        (expiry, "removed_by", _takes_lifted_for_removed),
    ),
    (
        "an expiry removes what the next snapshot has",
        "check_expiry",
        (
            expiry._Expiry,
            "_candidates",
            edited(
                "    metadata.difference_update(*self._named_by(after), self.kept_metadata)\n",
                "",
            ),
        ),
    ),
    (
        "time travel ends at the newest",
        "check_count_with_deletes",
        (TimeTravel, "by_id", _travels_to_latest),
    ),
)


def _folds(shape: Shape, function: str) -> bool:
    """Whether a column is aggregated by a function."""
    return any(
        key.endswith(".aggregate-function") and value == function for key, value in shape.options
    )


_PLANTED_IN_ENGINES = (
    # the same, and the tables on which it can be met
    (
        "of equal sequences in a group the older stays",
        "seed 33",
        (PartialUpdate, "_decide", edited("rank >= before", "rank > before")),
        lambda shape: shape.rules.late and not shape.rules.spread,
    ),
    (
        "a group passes over a newer null",
        "seed 15",
        (column_rules._Reader, "_function", edited("NEWEST if grouped else LAST", "LAST")),
        lambda shape: shape.engine == "partial-update" and "g" in shape.rules.columns,
    ),
    (
        "a null overwrites a value",
        "seed 21",
        (fold_columns, "fold", edited("in (NEWEST,", 'in ("last_non_null_value", NEWEST,')),
        lambda shape: shape.engine == "partial-update" and "g" not in shape.rules.columns,
    ),
    (
        "a sum adds what is taken back",
        "seed 114",
        (arithmetic, "_word_sums", edited("== Action.RETRACT", "== Action.SKIP")),
        lambda shape: _folds(shape, "sum") and shape.rules.deletes == "retract",
    ),
    (
        "what a delete removed is aggregated on",
        "seed 11",
        (aggregation, "removing", edited("else Action.CLEAR", "else Action.SKIP")),
        # a lookup compacts each commit: rows before and behind a delete seldom meet there
        lambda shape: (
            shape.option("aggregation.remove-record-on-delete") == "true"
            and shape.option("changelog-producer") != "lookup"
        ),
    ),
    (
        "the last row of a commit is taken for the first",
        "seed 4",
        (FirstRow, "merge", edited("segments.order[segments.first]", "segments.newest")),
        lambda shape: shape.engine == "first-row",
    ),
    (
        "the last value is taken for the first",
        "seed 85",
        (selection, "_first", edited("events.starts]]", "events.starts + events.lengths - 1]]")),
        lambda shape: _folds(shape, "first_value"),
    ),
    (
        "texts are joined from the newest on",
        "seed 407",
        (joined_text, "in_order_of_age", _newest_first),
        lambda shape: _folds(shape, "listagg"),
    ),
)
_PLANTED_BETWEEN = (
    # the same; hunted by the runs in which processes meet: the first of them that notices
    (
        "a hint that is ahead is an error",
        11,
        (SnapshotLog, "_newest", _believes_a_hint_ahead),
    ),
    (
        "a commit does not look whether its base was rolled back",
        6,
        (store_commit.StoreSnapshotCommit, "_is_rolled_back", lambda _: lambda *_: False),
    ),
    (
        "a commit does not look whether its table was dropped",
        0,
        (store_commit.StoreSnapshotCommit, "_check_same", passed_over),
    ),
    (
        "an old handle reads the table created anew",
        41,
        (handle, "check_same_table", passed_over),
    ),
)
OWN = (
    stream_mutants,
    store_mutants,
    mask_mutants,
    moments,
    frames,
    lookup_mutants,
    pipeline_mutants,
)
_ELSEWHERE = [one for own in OWN for one in own.PLANTED]
MUTANTS = (
    *(Mutant(name, check, replaced(*where)) for name, check, where in (*_PLANTED, *_ELSEWHERE)),
    *(
        Mutant(name, check, replaced(*where), meets)
        for name, check, where, meets in _PLANTED_IN_ENGINES
    ),
    *(
        Mutant(name, "meetings", replaced(*where), meeting=meeting)
        for name, meeting, where in _PLANTED_BETWEEN
    ),
)


def _some_faults() -> None:
    for scenario, call, mode in faults.all_faults([FaultMode.EIO_AFTER, FaultMode.CRASH_AFTER]):
        faults.run_fault(scenario, call, mode)


def _seeds() -> Iterator[tuple[str, Callable[[], None]]]:
    for seed in range(SEEDS):
        yield f"seed {seed}", lambda seed=seed: episode.run_seed(seed, STEPS)


def _model_runs(meets: Callable[[Shape], bool]) -> Iterator[tuple[str, Callable[[], None]]]:
    drawn = (seed for seed in range(MODEL_RUNS) if meets(draw_shape(random.Random(seed))))
    for seed in itertools.islice(drawn, MODEL_RUNS_MAX):
        yield f"seed {seed}", lambda seed=seed: episode.run_seed(seed, MODEL_STEPS)


def _meetings(first: int) -> None:
    for seed in range(first, MEETINGS):
        concurrent.run_seed(seed)


def _checks_of(mutant: Mutant, first_meeting: int = 0) -> Iterable[tuple[str, Callable[[], None]]]:
    if mutant.meets is not None:
        return _model_runs(mutant.meets)
    if mutant.meeting is not None:
        return [("meetings", lambda: _meetings(first_meeting))]
    modules = (interleave, directed, stream_checks, store_faults, late_puts)
    modules = (*modules, mask_checks, moments, frames, lookup_checks, pipeline_mutants)
    quick = [(c.__name__, c) for module in modules for c in module.CHECKS]
    return [*quick, *_seeds(), ("faults", _some_faults)]


def hunt(mutant: Mutant) -> str | None:
    """Plant the bug and run the checks; which one noticed, or None."""
    return _noticed_by(mutant, _checks_of(mutant))


def hunt_by_its_check(mutant: Mutant) -> str | None:
    """Plant the bug and run the check alone that it names; its name, or None.

    Meetings begin with the one that notices it: those before it take a second each.
    """
    checks = _checks_of(mutant, mutant.meeting or 0)
    own = [(name, check) for name, check in checks if name == mutant.caught_by]
    return _noticed_by(mutant, own)


def _noticed_by(mutant: Mutant, checks: Iterable[tuple[str, Callable[[], None]]]) -> str | None:
    for name, check in checks:
        with mutant.plant():
            try:
                check()
            except (AssertionError, TidelakeError, LookupError, ValueError):
                return name
    return None
