"""The lake's side of a job: epochs applied to the targets, and copies put in place.

An epoch is applied in this order, so that a crash at any moment loses and doubles nothing:

1. by target: is its commit made already?
2. changes of schemas, which take effect once by themselves;
3. rows made ready in memory; those that fit nowhere go into the quarantine, in one commit;
4. the commits to the targets, one after another.

A table that cannot follow its source is suspended, and the others go on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from tidelake.cdc.evolution.ddl_entry import DdlEntry, change_text
from tidelake.cdc.evolution.plan import (
    EvolutionAction,
    EvolutionPlan,
    EvolutionRules,
    Policy,
    plan_evolution,
)
from tidelake.cdc.job.journal_match import check_new, matched
from tidelake.cdc.job.replay import QuarantineReplay
from tidelake.cdc.job.row_parts import joined_rows, rows_after
from tidelake.cdc.job.table_copy import ChunkNote, Copier, TableCopy
from tidelake.cdc.job.table_set import not_followed, what_to_do
from tidelake.cdc.job.targets import LakeSettings, Targets
from tidelake.cdc.journal.entry import EntryKind, JournalEntry
from tidelake.cdc.journal.job_state import JobState, Phase, SyncedTable
from tidelake.cdc.source.changes import (
    Changes,
    MustReread,
    Part,
    Rejected,
    Signal,
    SourceRows,
    Truncated,
)
from tidelake.cdc.source.source import FirstCopy
from tidelake.cdc.source.source_table import SourceName, SourceTable
from tidelake.cdc.target.epoch_step import EpochStep
from tidelake.cdc.target.quarantine import Misfit, Quarantine, payload_of
from tidelake.cdc.target.row_check import RowCheck
from tidelake.cdc.target.row_maker import Made
from tidelake.cdc.target.target import Applied, Prepared, Target
from tidelake.engine.tables import Catalog
from tidelake.engine.write import WriteResult, WriteTransaction
from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.types import RowKind, TableSchema
from tidelake.types.schema_change import RenameColumn

CHUNK_ROWS_MAX = 500_000
CopyWatch = Callable[[str, int, int], None]
_LOG = logging.getLogger("tidelake")


@dataclass(frozen=True, slots=True)
class EpochResult:
    """What an epoch did.

    Parameters
    ----------
    state : JobState
        After it.
    rows_count : int
        Rows written.
    ddl : tuple of DdlEntry
        Changes of schemas.
    """

    state: JobState
    rows_count: int = 0
    ddl: tuple[DdlEntry, ...] = ()


@dataclass
class _Epoch:
    """An epoch on its way."""

    step: EpochStep
    state: JobState
    ready: dict[str, _Ready] = field(default_factory=dict)
    misfits: list[Misfit] = field(default_factory=list)
    ddl: list[DdlEntry] = field(default_factory=list)
    rows_count: int = 0


@dataclass
class _Ready:
    """An epoch's rows for one target, by version of their tables, in order."""

    target: Target
    is_done: bool
    made: list[tuple[SourceName, Made]] = field(default_factory=list)
    is_truncated: bool = False
    prepared: Prepared | None = None


class LakeWriter:
    """Puts a job's changes into its targets. For one thread.

    Parameters
    ----------
    copier : Copier, optional
        Copies large tables in other processes.

    Attributes
    ----------
    copy_watch : callable or None
        Called with the target, the rows copied and the rows estimated, as a copy goes on here.
    """

    def __init__(
        self, catalog: Catalog, settings: LakeSettings, copier: Copier | None = None
    ) -> None:
        self._copier = copier
        self.copy_watch: CopyWatch | None = None
        self.targets = Targets(catalog, settings)
        self._settings = settings
        self._clock = catalog.env.clock
        self._quarantine = Quarantine(catalog, settings.routing.database, settings.job)

    # ---- a start

    def matched(self, entry: JournalEntry, state: JobState, user: str) -> JobState:
        """Refuse a journal that lacks what the tables have; else give the state.

        Raises
        ------
        InvalidInputError
            Kind ``checkpoint_behind``.
        """
        state = matched(self.targets, entry, state, user)
        if entry.kind is not EntryKind.REPLAY:
            return state
        # a replay that a crash cut off may have taken rows out of it
        return replace(state, quarantined_count=len(self._quarantine.rows()))

    def check_new(self, names: Collection[str], epoch: int, user: str) -> None:
        """Refuse a journal that does not know targets which the job has committed to.

        Raises
        ------
        InvalidInputError
            Kind ``checkpoint_behind``.
        """
        check_new(self.targets, names, epoch, user)

    # ---- epochs

    def apply(self, changes: Changes, step: EpochStep, state: JobState) -> EpochResult:
        """Apply an epoch; each commit takes effect once.

        Raises
        ------
        InvalidInputError
            Journal and tables do not belong together, or the quarantine is full.
        """
        epoch = _Epoch(step, state)
        for part in changes.parts:
            self._take(part, epoch)
        for identifier, ready in epoch.ready.items():
            if not ready.is_done and not ready.is_truncated:
                self._prepare(identifier, ready, epoch)
        self._keep_misfits(epoch)
        for identifier, ready in epoch.ready.items():
            self._commit(identifier, ready, epoch)
        return EpochResult(epoch.state, epoch.rows_count, tuple(epoch.ddl))

    def _take(self, part: Part, epoch: _Epoch) -> None:
        """Take one part: its rows, or what it says of a table."""
        if isinstance(part, Signal):
            _LOG.info("Job '%s': the log has the signal '%s'", self._settings.job, part.text)
            return
        name = part.table.name if isinstance(part, SourceRows) else part.table
        table = epoch.state.tables.get(name)
        if table is None or table.phase is not Phase.LIVE:
            return
        if isinstance(part, SourceRows):
            self._take_rows(part, table, epoch)
        elif part.order is not None and part.order <= table.since:
            return  # the table's copy is of later
        elif isinstance(part, Truncated):
            self._take_truncation(name, table, epoch, part.order)
        elif isinstance(part, MustReread):
            self._take_reread(part, table, epoch)
        else:
            _move(epoch, name, Phase.GONE, part.statement)
            _LOG.warning(
                "Job '%s': table %s is gone (%s); its target stays",
                self._settings.job,
                name,
                part.statement,
            )

    def _take_reread(self, part: MustReread, table: SyncedTable, epoch: _Epoch) -> None:
        if not part.columns:
            _copy_again(epoch, part.table, part.reason)
            return
        if not {column.name.lower() for column in table.version.columns} & {*part.columns}:
            return
        match self._settings.evolution.policy:
            case Policy.PAIMON:
                _LOG.warning(
                    "Job '%s': table %s: old rows differ from the source: %s. Copy it again.",
                    self._settings.job,
                    part.table,
                    part.reason,
                )
            case Policy.STRICT:
                reason = f"the policy is strict, and {part.reason}"
                _move(epoch, part.table, Phase.SUSPENDED, reason)
            case _:
                _copy_again(epoch, part.table, part.reason)

    def _take_truncation(
        self, name: SourceName, table: SyncedTable, epoch: _Epoch, order: tuple[int, int] | None
    ) -> None:
        if sum(one.target == table.target for one in epoch.state.tables.values()) > 1:
            _copy_again(epoch, name, "it was truncated, and shares its target")
            return
        self._ready(table.target, epoch).is_truncated = True
        if order is not None:  # what was before does not come back, by a replay either
            epoch.state = epoch.state.with_table(
                name, replace(table, since=max(table.since, order))
            )

    def _take_rows(self, part: SourceRows, table: SyncedTable, epoch: _Epoch) -> None:
        name = part.table.name
        part = rows_after(part, table.since)
        if not len(part.kinds) and not part.rejected:
            return
        ready = self._ready(table.target, epoch)
        if part.table != table.version and not self._evolve(part.table, table, ready, epoch):
            return
        if not ready.target.handle.schema.primary_keys and (part.kinds != RowKind.INSERT).any():
            reason = (
                "it has no key, and rows were updated or deleted: give it one with --primary_keys,"
                " or copy it by tidelake cdc resnapshot now and then"
            )
            _LOG.warning("Job '%s': table %s is suspended: %s", self._settings.job, name, reason)
            _move(epoch, name, Phase.SUSPENDED, reason)
            return
        for one in part.rejected:
            epoch.misfits.append(Misfit(table.target, one))
        last_ms = int(part.changed_ms[-1]) if len(part.kinds) else table.changed_ms
        moved = epoch.state.tables[name]
        epoch.state = epoch.state.with_table(
            name,
            replace(
                moved,
                version=part.table,
                rows_count=moved.rows_count + len(part.kinds),
                changed_ms=last_ms,
            ),
        )
        if ready.is_done or not len(part.kinds):
            return
        keys = ready.target.handle.schema.primary_keys
        made = self.targets.maker(part.table).changes(part, keys, self._clock.now_ms())
        epoch.misfits += [Misfit(table.target, one) for one in made.rejected]
        ready.made.append((name, made))

    def _ready(self, identifier: str, epoch: _Epoch) -> _Ready:
        found = epoch.ready.get(identifier)
        if found is None:
            target = self.targets.target(identifier, epoch.state)
            found = epoch.ready[identifier] = _Ready(target, target.is_done(epoch.step))
        return found

    # ---- schemas

    def _evolve(self, new: SourceTable, table: SyncedTable, ready: _Ready, epoch: _Epoch) -> bool:
        """Make a target follow a new version; False if the table's rows are not wanted any more."""
        target = ready.target
        rules = self._rules(table, epoch)
        base = self._base_schema(target, epoch.state)
        plan = plan_evolution(base, new, table.version, rules)
        now = plan
        if base.id != target.handle.schema.id:  # a crash came after the change
            now = plan_evolution(target.handle.schema, new, table.version, rules)
        if plan.action is not EvolutionAction.SUSPEND and now.changes:
            target.alter(now.changes)
            _rename_earlier(ready, now)
        self._tell(new, table, plan, epoch)
        if plan.action is EvolutionAction.PROCEED:
            return True
        if plan.action is EvolutionAction.SUSPEND:
            _move(epoch, new.name, Phase.SUSPENDED, plan.reason)
            return False
        _copy_again(epoch, new.name, plan.reason)
        renewed = replace(epoch.state.tables[new.name], version=new)
        epoch.state = epoch.state.with_table(new.name, renewed)
        return False

    def _rules(self, table: SyncedTable, epoch: _Epoch) -> EvolutionRules:
        sharing = sum(one.target == table.target for one in epoch.state.tables.values())
        return replace(
            self._settings.evolution,
            shares_target=sharing > 1,
            computed_from=self.targets.maker(table.version).computed.sources,
        )

    def _base_schema(self, target: Target, state: JobState) -> TableSchema:
        """The target's schema before the epoch."""
        schema_id = state.schema_ids.get(target.identifier)
        handle = target.handle
        if schema_id is None or schema_id == handle.schema.id:
            return handle.schema
        return handle.schemas.load(schema_id)

    def _tell(
        self, new: SourceTable, table: SyncedTable, plan: EvolutionPlan, epoch: _Epoch
    ) -> None:
        for warning in plan.warnings:
            _LOG.warning("Job '%s': table %s: %s", self._settings.job, new.name, warning)
        if plan.action is not EvolutionAction.PROCEED:
            _LOG.warning(
                "Job '%s': table %s: %s (%s)",
                self._settings.job,
                new.name,
                "is copied again" if plan.action is EvolutionAction.REREAD else "is suspended",
                plan.reason,
            )
        if not plan.changes and not plan.warnings and plan.action is EvolutionAction.PROCEED:
            return
        epoch.ddl.append(
            DdlEntry(
                epoch.step.epoch,
                table.target,
                str(new.name),
                tuple(change_text(change) for change in plan.changes),
                epoch.step.start,
                str(plan.action),
                plan.reason,
                plan.warnings,
            )
        )

    # ---- commits

    def _prepare(self, identifier: str, ready: _Ready, epoch: _Epoch) -> None:
        """Make the rows of all versions and tables of one target ready."""
        if not ready.made:
            return
        rows = joined_rows([made.rows for _, made in ready.made])
        order = np.concatenate([made.order for _, made in ready.made])
        names = [name for name, made in ready.made for _ in range(len(made.order))]
        if len(set(names)) > 1:  # tables that share a target, in the order of the source
            places = np.lexsort((order[:, 1], order[:, 0]))
            rows, order = rows.taken(places), order[places]
            names = [names[place] for place in places.tolist()]
        ready.prepared = ready.target.prepare(rows)
        for row, reason in sorted(ready.prepared.left_out.items()):
            payload = payload_of(rows.rows.slice(row, 1).to_pylist()[0])
            position = (int(order[row, 0]), int(order[row, 1]))
            rejected = Rejected(names[row], position, int(rows.kinds[row]), reason, payload)
            epoch.misfits.append(Misfit(identifier, rejected))

    def _keep_misfits(self, epoch: _Epoch) -> None:
        """Put what fits nowhere into the quarantine, before any commit of the epoch."""
        if not epoch.misfits:
            return
        count = epoch.state.quarantined_count + len(epoch.misfits)
        if count > self._settings.quarantine_max:
            raise self._quarantine_full(count, epoch.misfits[0].rejected)
        identifier = self._quarantine.identifier
        self._quarantine.made = epoch.state.made.get(identifier)
        self._quarantine.add(epoch.step, epoch.misfits)
        made = dict(epoch.state.made)
        if self._quarantine.made is not None:
            made[identifier] = self._quarantine.made
        epoch.state = replace(epoch.state, quarantined_count=count, made=made)

    def _quarantine_full(
        self, count: int, first: Rejected, said: str = "Nothing of this epoch was applied."
    ) -> InvalidInputError:
        message = (
            f"Job '{self._settings.job}': {count} rows fit nowhere, more than"
            f" {self._settings.quarantine_max}. The first is of {first.table}: {first.reason}."
            f" {said} '{self._quarantine.identifier}' has those before; mend the source or the"
            " target, or allow more by --quarantine-max."
        )
        return InvalidInputError(message, kind="cdc_quarantine_full", job=self._settings.job)

    def _bounded(
        self, rows: Iterator[pa.RecordBatch], notes: Mapping[int, ChunkNote], epoch: _Epoch
    ) -> Iterator[pa.RecordBatch]:
        """The copied rows; refuses, before their commit, more misfits than the quarantine takes."""
        before = epoch.state.quarantined_count + len(epoch.misfits)

        def check() -> None:
            count = before + sum(len(note.rejected) for note in notes.values())
            if count > self._settings.quarantine_max:
                first = next(one for note in notes.values() for one in note.rejected)
                raise self._quarantine_full(count, first, "Its copy was not put in place.")

        for batch in rows:
            check()
            yield batch
        check()

    def _commit(self, identifier: str, ready: _Ready, epoch: _Epoch) -> None:
        if not ready.is_done:
            if ready.is_truncated:
                epoch.rows_count += ready.target.truncate(epoch.step).rows_count
            elif ready.prepared is not None:
                epoch.rows_count += ready.target.commit(epoch.step, ready.prepared).rows_count
        self._note(identifier, ready.target, epoch)

    def _note(self, identifier: str, target: Target, epoch: _Epoch) -> None:
        """Keep what is known of a target's commit and schema."""
        state = epoch.state
        made = dict(state.made) if target.made is None else {**state.made, identifier: target.made}
        schemas = {**state.schema_ids, identifier: target.handle.schema.id}
        epoch.state = replace(state, made=made, schema_ids=schemas)

    # ---- the quarantine

    def replay(self, user: str) -> QuarantineReplay:
        """Give what tries the rows of the quarantine again."""
        return QuarantineReplay(self.targets, self._quarantine, user, self._clock.now_ms())

    # ---- copies

    def copy(
        self, copy: FirstCopy, names: Sequence[SourceName], step: EpochStep, state: JobState
    ) -> EpochResult:
        """Copy tables, and follow them from then on.

        The rows of a target are replaced in one commit. Where other tables that are followed share
        a target, or the source says that rows stay, the copied rows are added to theirs. A table
        that was copied before is suspended where its target has rows of others that the job does
        not follow: they cannot be told apart. One whose target cannot be made, or does not fit,
        ends the job only when it begins; later the table is suspended.
        """
        begins = not any(one.copies_count for one in state.tables.values())
        epoch = _Epoch(step, state)
        by_target: dict[str, list[SourceName]] = {}
        for name in names:
            by_target.setdefault(state.tables[name].target, []).append(name)
        for identifier, sharing in by_target.items():
            if self._would_take_rows(copy, identifier, sharing, epoch):
                continue
            if self._are_too_large(copy, sharing, epoch):
                continue
            versions = [state.tables[name].version for name in sharing]
            try:
                self._make(identifier, versions, epoch)
            except (InvalidInputError, UnsupportedError) as error:
                if begins and not self._settings.ignores_incompatible:
                    raise
                _LOG.warning("Job '%s': %s", self._settings.job, error.message)
                for name in sharing:
                    _move(epoch, name, Phase.SUSPENDED, error.message)
                continue
            self._copy_target(copy, identifier, versions, epoch)
        self._keep_misfits(epoch)
        return EpochResult(epoch.state, epoch.rows_count, tuple(epoch.ddl))

    def _would_take_rows(
        self, copy: FirstCopy, identifier: str, names: Sequence[SourceName], epoch: _Epoch
    ) -> bool:
        """Suspend tables whose copy would replace rows of others that are not copied with them."""
        others = not_followed(epoch.state, identifier, besides=names)
        is_new = not any(epoch.state.tables[name].copies_count for name in names)
        if not others or is_new or copy.keeps_rows:
            return False
        if not self.targets.catalog.table_exists(identifier):
            for name in others:  # they have no rows any more
                without = replace(epoch.state.tables[name], copies_count=0)
                epoch.state = epoch.state.with_table(name, without)
            return False
        other = what_to_do(epoch.state, identifier, others)
        for name in names:
            reason = f"{epoch.state.tables[name].reason}; {identifier} has rows of {other}"
            _LOG.warning("Job '%s': table %s is suspended: %s", self._settings.job, name, reason)
            _move(epoch, name, Phase.SUSPENDED, reason)
        return True

    def _are_too_large(self, copy: FirstCopy, names: Sequence[SourceName], epoch: _Epoch) -> bool:
        """Leave tables to a person that a change of schema would have copied, and are large."""
        tables = [epoch.state.tables[name] for name in names]
        if not any(one.is_bounded for one in tables):
            return False
        count = sum(
            chunk.rows_count
            for one in tables
            for chunk in copy.chunks(one.version, rows_max=CHUNK_ROWS_MAX)
        )
        if count <= self._settings.reread_max:
            return False
        for name, one in zip(names, tables, strict=True):
            reason = (
                f"{one.reason}; it has about {count} rows, more than --reread-max: copy it by"
                " tidelake cdc resnapshot"
            )
            _LOG.warning("Job '%s': table %s is suspended: %s", self._settings.job, name, reason)
            _move(epoch, name, Phase.SUSPENDED, reason)
        return True

    def _make(self, identifier: str, versions: Sequence[SourceTable], epoch: _Epoch) -> None:
        """Create a target, or make an existing one follow the tables as they are now."""
        if not self.targets.catalog.table_exists(identifier):
            # one that was dropped had commits that the new one lacks
            made = {name: one for name, one in epoch.state.made.items() if name != identifier}
            epoch.state = replace(epoch.state, made=made)
        else:
            target = self.targets.target(identifier, epoch.state)
            target.refresh()
            for version in versions:
                table = epoch.state.tables[version.name]
                plan = plan_evolution(
                    target.handle.schema, version, None, self._rules(table, epoch)
                )
                if plan.action is EvolutionAction.SUSPEND:
                    message = f"Table '{identifier}' cannot follow {version.name}: {plan.reason}."
                    raise InvalidInputError(message, kind="cdc_table_differs", table=identifier)
                if plan.changes:
                    target.alter(plan.changes)
                    self._tell(version, table, replace(plan, action=EvolutionAction.PROCEED), epoch)
        self.targets.make(identifier, versions)

    def _copy_target(
        self, copy: FirstCopy, identifier: str, versions: Sequence[SourceTable], epoch: _Epoch
    ) -> None:
        target = self.targets.target(identifier, epoch.state)
        counts: dict[SourceName, int] = {}
        names = {version.name for version in versions}
        others = not_followed(epoch.state, identifier, besides=names) or [
            n
            for n, one in epoch.state.tables.items()
            if one.target == identifier and n not in names and one.phase is Phase.LIVE
        ]
        wanted = self._table_copy(copy, versions, target)
        done, notes = self._written(
            copy, wanted, target, epoch, replaces=not (copy.keeps_rows or others)
        )
        for number, note in sorted(notes.items()):
            name = wanted.chunks[number].table.name
            epoch.misfits += [Misfit(identifier, one) for one in note.rejected]
            counts[name] = counts.get(name, 0) + note.rows_count
        epoch.rows_count += done.rows_count
        for version in versions:
            old = epoch.state.tables[version.name]
            copied = SyncedTable(
                identifier,
                Phase.LIVE,
                version,
                copy.order,
                copies_count=old.copies_count + 1,
                rows_count=old.rows_count + counts.get(version.name, 0),
                changed_ms=old.changed_ms,
                copied_at="" if copy.keeps_rows else copy.whole_at(),
            )
            epoch.state = epoch.state.with_table(version.name, copied)
        self._note(identifier, target, epoch)

    def _table_copy(
        self, copy: FirstCopy, versions: Sequence[SourceTable], target: Target
    ) -> TableCopy:
        chunks = [
            chunk for version in versions for chunk in copy.chunks(version, rows_max=CHUNK_ROWS_MAX)
        ]
        return TableCopy(
            target.identifier,
            RowCheck.of(target.handle),
            copy,
            tuple(chunks),
            {version.name: self.targets.maker(version) for version in versions},
            copy.order,
            self._clock.now_ms(),
        )

    def _written(
        self, copy: FirstCopy, wanted: TableCopy, target: Target, epoch: _Epoch, *, replaces: bool
    ) -> tuple[Applied, Mapping[int, ChunkNote]]:
        """Write the copied rows: here, or by other processes where they take the copy."""
        copier, step = self._copier, epoch.step
        reader = copy.reader(wanted.chunks) if copier is not None else None
        notes: dict[int, ChunkNote] = {}
        if copier is not None and reader is not None and not (replaces and target.logs_replaced):
            spread = wanted.read_by(reader)
            if copier.takes(spread):

                def write(transaction: WriteTransaction) -> WriteResult:
                    result, found = copier.write(spread, transaction)
                    notes.update(found)
                    return result

                return target.copied(step, write, replaces=replaces), notes
        rows: Iterator[pa.RecordBatch] = (
            batch
            for number in range(len(wanted.chunks))
            for batch in wanted.rows(number, notes.setdefault(number, ChunkNote()))
        )
        rows = self._bounded(rows, notes, epoch)
        if self.copy_watch is not None:
            rows = _watched(rows, wanted, self.copy_watch)
        done = target.replace(step, rows, wanted.order) if replaces else target.add(step, rows)
        return done, notes


def _watched(
    rows: Iterator[pa.RecordBatch], wanted: TableCopy, watch: CopyWatch
) -> Iterator[pa.RecordBatch]:
    """The rows, of which each batch is told when it is taken."""
    count = 0
    watch(wanted.target, count, wanted.rows_count)
    for batch in rows:
        yield batch
        count += batch.num_rows
        watch(wanted.target, count, wanted.rows_count)


def _copy_again(epoch: _Epoch, name: SourceName, reason: str) -> None:
    """Let a table be copied, with those that share its target: the copy replaces all rows."""
    target = epoch.state.tables[name].target
    for other, one in epoch.state.tables.items():
        if other == name or (one.target == target and one.phase is Phase.LIVE):
            why = reason if other == name else f"{name} shares its target, and {reason}"
            copying = replace(one, phase=Phase.COPYING, reason=why, is_bounded=True)
            epoch.state = epoch.state.with_table(other, copying)


def _move(epoch: _Epoch, name: SourceName, phase: Phase, reason: str) -> None:
    table = epoch.state.tables[name]
    epoch.state = epoch.state.with_table(name, replace(table, phase=phase, reason=reason))


def _rename_earlier(ready: _Ready, plan: EvolutionPlan) -> None:
    """Give rows of the epoch's earlier versions the new names of columns."""
    renamed = {
        change.column: change.new_name
        for change in plan.changes
        if isinstance(change, RenameColumn)
    }
    if not renamed:
        return
    for place, (name, made) in enumerate(ready.made):
        rows = made.rows
        names = [renamed.get(column, column) for column in rows.rows.column_names]
        changed = replace(
            rows,
            rows=rows.rows.rename_columns(names),
            unchanged={renamed.get(n, n): mask for n, mask in rows.unchanged.items()},
        )
        ready.made[place] = (name, replace(made, rows=changed))
