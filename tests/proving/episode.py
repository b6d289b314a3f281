"""A seeded run of operations against a dict: the same seed replays exactly.

Each step draws an operation (upsert, delete, update, overwrite, compact, reopen, replay of an
acknowledged commit, time travel, filtered read), does it on the engine and on the model, and
compares; a step that made no snapshot and did not reopen the table has nothing new to compare. In
the end the files are checked by the independent fsck, the rows are counted and some snapshots are
read again.
"""

from __future__ import annotations

import itertools
import random

from proving.changelog import ReplayError, replay
from proving.fsck import check_table
from proving.model import MergedTable, sorted_rows
from proving.more_draws import EXPIRES_S, KEYS_FOR_EVER
from proving.reach import missing, stray
from proving.world import (
    LOCATION,
    NAME,
    Shape,
    arrow_of,
    content_of,
    draw_rows,
    open_catalog,
    shape_of,
)
from tidelake import col
from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.fileio import MemoryFileIO
from tidelake.telemetry import ManualClock

OPERATIONS = (
    ("upsert", 40),
    ("delete", 12),
    ("mixed", 10),
    ("update", 6),
    ("overwrite", 5),
    ("compact", 8),
    ("compact_full", 3),
    ("reopen", 6),
    ("replay", 4),
    ("travel", 6),
    ("expire", 5),
    ("filter", 8),
)


SNAPSHOTS_READ_AGAIN = 6
COUNT_SHARE = 0.1


class ModelMismatch(AssertionError):
    """The engine and the dict disagree."""


class Episode:
    """One seeded run."""

    def __init__(self, seed: int, *, fileio=None, shape: Shape | None = None) -> None:
        self.seed = seed
        self.name = NAME
        self.rng = random.Random(seed)
        self.fileio = MemoryFileIO() if fileio is None else fileio
        self.shape = shape_of(seed, self.rng) if shape is None else shape
        self.rules = self.shape.rules
        self.model = self.shape.model()
        self.rows_drawn = 0
        self.clock = ManualClock(tick_ms=1)  # rows that wait for a bucket are replayed by its time
        self.catalog = open_catalog(self.fileio, seed, clock=self.clock)
        self.shape.create(self.catalog)
        self.table = self.catalog.table(NAME)
        self.identifier = 0
        self.last_commit: tuple[object, ...] | None = None
        self.last_commit_snapshot = 0
        self.by_tag: dict[str, tuple[int, object]] = {}
        self.trace: list[str] = []
        self.compared: int | None = None
        self.told: dict[object, tuple[object, ...]] = {}
        self.told_until = 0
        self.given: list[tuple[object, ...]] = []
        self.given_waiting: list[tuple[object, ...]] = []
        self.given_until = 0
        self.newest_keys: list[set[tuple[object, ...]]] = []
        self.leaves_nothing = isinstance(self.fileio, MemoryFileIO)

    def run(self, steps: int) -> None:
        names = [n for n, _ in OPERATIONS]
        weights = [w for _, w in OPERATIONS]
        for step in range(steps):
            name = self.rng.choices(names, weights)[0]
            self.trace.append(name)
            if self.expires:
                self.clock.sleep_ms(self.rng.choice([0, 1_000, 5_000, 15_000]))
            try:
                getattr(self, name)()
                self.compare()
            except ModelMismatch as error:
                raise ModelMismatch(
                    f"seed {self.seed}, step {step} ({name}), shape {self.shape}: {error}"
                ) from error
        self.finish()

    # -- operations ------------------------------------------------------------------------------
    def _rows(self, count: int, *, retract: bool = False):
        clock, self.rows_drawn = self.rows_drawn, self.rows_drawn + count
        rows = draw_rows(self.shape, self.rng, count, clock=clock, retract=retract)
        for row in rows if self.expires else ():
            row["t"] = self.clock.now_ms() // 1000 if row["k"] % KEYS_FOR_EVER else None
        return rows

    @property
    def expires(self) -> bool:
        """Whether rows expire."""
        return self.shape.option("record-level.time-field") is not None

    def _expired_before(self) -> int:
        return self.clock.now_ms() // 1000 - EXPIRES_S

    def _added(self, count: int):
        rows = self._rows(count)
        if isinstance(self.model, MergedTable):
            rows = self.model.without_retracted(rows)
        return rows

    def _commit(self, rows, deletes=None) -> None:
        self.identifier += 1
        batch = arrow_of(self.shape, rows)
        retract = "-D"
        if deletes is not None and len(self.rules.kinds) > 1:
            retract = self.rng.choice(self.rules.kinds)
        kinds = None if deletes is None else [retract if d else "+I" for d in deletes]
        given = ["+I"] * len(rows) if kinds is None else kinds
        if self.shape.option("rowkind.field") is not None:
            given = [kind if kind != "+I" else self.rng.choice(["+I", "+U"]) for kind in given]
            rows = [row | {"rk": kind} for row, kind in zip(rows, given, strict=True)]
            batch, kinds = arrow_of(self.shape, rows), None
        self.last_commit = (batch, kinds, self.identifier)
        self._give(rows, given)
        before = self.table.latest_snapshot_id or 0
        self.table.write(
            batch, row_kinds=kinds, commit_user="episode", commit_identifier=self.identifier
        )
        self.last_commit_snapshot = self.table.latest_snapshot_id or 0
        if self.last_commit_snapshot == before:
            self.last_commit = None  # no row was taken, and nothing tells that it was committed
        self.model.apply(rows, deletes, kind=retract)
        self._remember()

    def _remember(self) -> None:
        newest = self.table.latest_snapshot_id
        if newest is None or self.expires:
            return  # which rows have expired is found when they are compared
        first = max(self.model.by_snapshot, default=0) + 1
        for snapshot_id in range(first, newest + 1):
            self.model.committed(snapshot_id)

    def upsert(self, count: int | None = None) -> None:
        count = self.rng.choice([1, 3, 30]) if count is None else count
        self._commit(self._added(count))

    @property
    def _may_delete(self) -> bool:
        # A full compaction forgets a delete and with it its sequence; a row of a smaller sequence
        # that arrives later is then taken (so in Paimon too). The dict would remember it.
        return self.rules.deletes != "none" and (
            self.shape.sequence_field is None
            or self._never_compacted
            or self.rules.deletes == "ignore"
        )

    @property
    def _never_compacted(self) -> bool:
        return (
            self.shape.sequence_field is not None and ("write-only", "true") in self.shape.options
        )

    def mixed(self) -> None:
        rows = self._added(12)
        # of one commit the rows of a key are merged before an older one is met
        if not (self.shape.keys and self._may_delete) or self.shape.engine in (
            "partial-update",
            "aggregation",
        ):
            self._commit(*self._with_retracting(rows))
            return
        self._commit(rows, [self.rng.random() < 0.4 for _ in rows])

    def _with_retracting(self, rows):
        """Rows and which of them retract: of another key than those that add."""
        if not self.rules.mixes:
            return rows, None
        taken = self._rows(8, retract=True)
        if isinstance(self.model, MergedTable) and self.rules.deletes != "ignore":
            taken = self.model.retractable(taken)
        own = {self.model.key(row) for row in taken}
        added = [row for row in rows if self.model.key(row) not in own]
        retracts = [False] * len(added) + [True] * len(taken)
        self.rng.shuffle(retracts)
        ways = iter(added), iter(taken)  # those of either kind stay in order
        return [next(ways[retract]) for retract in retracts], retracts

    def delete(self) -> None:
        if not self.shape.keys:
            self._delete_found()
            return
        if not self._may_delete:
            return
        rows = self._rows(self.rng.choice([1, 8]), retract=True)
        if isinstance(self.model, MergedTable) and self.rules.deletes != "ignore":
            rows = self.model.retractable(rows)
        by_keys = self.rules.by_keys and self.shape.option("ignore-delete") != "true"
        if by_keys and self.shape.sequence_field is None and self.rng.random() < 0.5:
            keys = list(dict.fromkeys(tuple(r[k] for k in self.shape.keys) for r in rows))
            gone = [dict(zip(self.shape.keys, k, strict=True)) for k in keys]
            self.table.delete(gone)
            if self.shape.keys_may_move:  # their rows are looked up, and with them where they are
                gone = [row for row in self.model.content() if self.model.key(row) in keys]
            self._give(gone, ["-D"] * len(gone))
            self.model.apply(rows, [True] * len(rows))
            self._remember()
            return
        self._commit(rows, [True] * len(rows))

    def update(self) -> None:
        if self._update_is_refused() or not self.rules.updates:
            return
        column = self.rng.choice(["k", "n"])
        value = self.rng.randrange(-20, 20)
        text = f"u{self.rng.randrange(100)}"
        count = sum(row[column] == value for row in self.model.content())
        found = [row | {"v": text} for row in self.model.content() if row[column] == value]
        self._give(found, ["+U"] * count)
        updated = self.table.update({"v": text}, col(column) == value).rows
        self.model.update(column, value, {"v": text})
        self._remember()
        if updated != count:
            raise ModelMismatch(f"update of {column} = {value} says {updated} rows, not {count}")

    def update_any(self) -> None:
        """Set any column; what would be lost is refused, and the model knows what."""
        if self._update_is_refused():
            return
        where, value = self.rng.choice(["k", "n"]), self.rng.randrange(-20, 20)
        if self.model.content() and self.rng.random() < 0.9:
            value = self.rng.choice(self.model.content())[where]
            if value is None:
                return
        names = ["v", "n", "x", *(name for name in self.rules.columns if name == "m")]
        if self.shape.sequence_field is not None and isinstance(self.model, MergedTable):
            names = ["v"]  # of the others a null would be filled by what is older
        name = self.rng.choice(names)
        news = {"v": f"u{self.rng.randrange(100)}", "x": 0.25}.get(name, self.rng.randrange(50))
        if name not in self.rules.filled and self.rng.random() < 0.25:
            news = None
        found = [row for row in self.model.content() if row[where] == value]
        after = self.model.copy()
        after.update(where, value, {name: news})
        seen = after.copy()
        seen.give_buckets()  # an update of a postpone bucket's table shows once it is compacted
        content = seen.content()
        shows = all(row | {name: news} in content for row in found)
        before = self.table.latest_snapshot_id
        try:
            updated = self.table.update({name: news}, col(where) == value).rows
        except InvalidInputError as error:
            if shows or error.kind != "update_lost" or self.table.latest_snapshot_id != before:
                raise ModelMismatch(
                    f"update of {name}, where {where} = {value}: {error}"
                ) from error
            return
        if not shows or updated != len(found):
            wrong = f"says {updated} rows, not {len(found)}" if shows else "is lost"
            raise ModelMismatch(f"update of {name}, where {where} = {value}, {wrong}")
        self._give([row | {name: news} for row in found], ["+U"] * len(found))
        self.model = after
        self._remember()

    def _update_is_refused(self) -> bool:
        """Whether no row can be updated now; it is said so."""
        if self.shape.engine in ("first-row", "aggregation"):
            kind = "update_engine"
        elif self._rows_wait:
            kind = "update_postponed"
        else:
            return False
        before = self.table.latest_snapshot_id
        try:
            self.table.update({"v": "u"}, col("k") == 1)
        except UnsupportedError as error:
            if error.kind == kind and self.table.latest_snapshot_id == before:
                return True
        raise ModelMismatch(f"an update is not refused as {kind}")

    @property
    def _rows_wait(self) -> bool:
        """Whether rows wait in the postpone bucket; deletes that are ignored are not written."""
        return any(
            not (is_delete and self.rules.deletes == "ignore")
            for rows, flags, _ in self.model.waiting or ()
            for is_delete in (flags or [False] * len(rows))
        )

    def _delete_found(self) -> None:
        column = self.rng.choice(["k", "n"])
        value = self.rng.randrange(-20, 20)
        before = len(self.model.content())
        deleted = self.table.delete(col(column) == value).rows
        self.model.remove(column, value)
        self._remember()
        if deleted != before - len(self.model.content()):
            raise ModelMismatch(f"delete of {column} = {value} says {deleted} rows")

    def overwrite(self) -> None:
        if self.shape.option("changelog-producer") == "full-compaction":
            self._replay_told(self.table.latest_snapshot_id or 0)  # before rows are gone untold
        rows = self._rows(6)
        table, dynamic = self.table, not self.shape.keys_may_move
        if not dynamic:  # single partitions of such a table are not overwritten
            table = table.copy({"dynamic-partition-overwrite": "false"})
        table.write(arrow_of(self.shape, rows), mode="overwrite")
        self.model.overwrite(rows, dynamic=dynamic)
        self._give_overwritten(rows, dynamic=dynamic)
        self._remember()
        # no changelog tells of it; a full compaction tells what it wrote as new
        if self.shape.option("changelog-producer") == "lookup":
            self.told = self._by_key(self.model.content())
        else:
            width = len(self.shape.partition_keys) if dynamic else 0
            gone = {key[:width] for key in self._by_key(rows)} if width else {()}
            self.told = {k: row for k, row in self.told.items() if k[:width] not in gone}
            compacts = self.shape.option("write-only") != "true"
            if compacts and self.shape.option("force-lookup") == "true":  # at once, untold
                new = self._by_key(self.model.content())
                self.told |= {k: row for k, row in new.items() if k[:width] in gone}
        self.told_until = self.table.latest_snapshot_id

    def _give_buckets(self) -> None:
        self.model.give_buckets()
        self.given += self.given_waiting
        self.given_waiting = []

    def _give_overwritten(self, rows, *, dynamic: bool) -> None:
        """An overwrite takes what waits, and is not logged but where its own rows wait."""
        self._forget_waiting(rows if dynamic and self.shape.partition_keys else None)
        if self.model.waiting is not None:
            names = self.shape.arrow_schema.names
            self.given_waiting += [("+I", *(row[name] for name in names)) for row in rows]
        if not self.newest_keys:
            self.newest_keys.append(set())
        # no commit of rows that is counted; its own are as old as those of the last one
        self.newest_keys[-1] |= {self._place(row) for row in rows}

    def _forget_waiting(self, rows) -> None:
        """An overwrite of the partitions of these rows, or of all, takes what waits there."""
        touched = None if rows is None else {row["p"] for row in rows}
        self.given_waiting = [
            change
            for change in self.given_waiting
            if touched is not None and change[1] not in touched
        ]

    def compact(self) -> None:
        if self._never_compacted:
            return
        self.table.compact()
        self._give_buckets()
        self._remember()

    def compact_full(self) -> None:
        if self._never_compacted:
            return
        before = self._expired_before() if self.expires else 0
        self.table.compact(full=True)
        if self.expires:
            self.model.expire(lambda row: (row["t"] or before) < before)
        self._give_buckets()
        self._remember()
        newest = self.table.latest_snapshot_id
        if self.shape.option("changelog-producer") == "full-compaction" and newest is not None:
            self.compare_told(newest)

    def reopen(self, seed: int | None = None) -> None:
        seed = self.rng.randrange(2**31) if seed is None else seed
        self.catalog = open_catalog(self.fileio, seed, clock=self.clock)
        self.table = self.catalog.table(self.name)
        self.compared = None

    def replay(self) -> None:
        if self.last_commit is None:
            return
        batch, kinds, identifier = self.last_commit
        self.table.write(
            batch, row_kinds=kinds, commit_user="episode", commit_identifier=identifier
        )
        self._remember()

    def travel(self) -> None:
        if not self.model.by_snapshot:
            return
        snapshot_id = self.rng.choice(sorted(self.model.by_snapshot))
        got = content_of(self.table, snapshot_id=snapshot_id)
        if got != self.model.by_snapshot[snapshot_id]:
            raise ModelMismatch(_difference(got, self.model.by_snapshot[snapshot_id]))

    def expire(self) -> None:
        """The oldest snapshots go; what a tag names is read as before."""
        newest = self.table.latest_snapshot_id
        if newest is None:
            return
        self._tag(newest)
        producer = self.shape.option("changelog-producer")
        if producer == "full-compaction" and not self._tells_expired:
            self._replay_told(newest)  # while it is told
        oldest = self.table.handle.snapshots.earliest_id()
        kept = max(oldest, newest - self.rng.choice([1, 2, 5, 20]) + 1)
        expired = self.table.maintenance.expire_snapshots(
            retain_max=newest - kept + 1, retain_min=1, max_deletes=10_000
        )
        if expired.ids != tuple(range(oldest, kept)):
            raise ModelMismatch(f"{expired.ids} expired, not {oldest} to {kept - 1}")
        for number in [n for n in self.model.by_snapshot if n < kept]:
            del self.model.by_snapshot[number]
        if self.last_commit_snapshot < kept:
            self.last_commit = None  # nothing tells any more that it was committed
        lost = missing(self.fileio, LOCATION)
        left = stray(self.fileio, LOCATION)
        if lost or (left and self.leaves_nothing):
            raise ModelMismatch(f"after an expiry lost: {lost}, left behind: {left}")
        for name, (number, rows) in self.by_tag.items():
            got = content_of(self.table, tag=name)
            if got != rows:
                raise ModelMismatch(f"tag of snapshot {number}: {_difference(got, rows)}")

    @property
    def _tells_expired(self) -> bool:
        """Whether changelogs outlive their snapshots."""
        return self.shape.option("changelog.num-retained.max") is not None

    def _tag(self, newest: int) -> None:
        """Tag a snapshot that the model knows, or delete a tag."""
        if self.by_tag and self.rng.random() < 0.3:
            name = self.rng.choice(sorted(self.by_tag))
            self.table.tags.delete(name)
            del self.by_tag[name]
            return
        known = sorted(self.model.by_snapshot)
        if not known or self.rng.random() < 0.4:
            return
        number = self.rng.choice(known)
        name = f"t{number}-{len(self.by_tag)}-{newest}"
        if name not in self.by_tag:
            self.table.tags.create(name, snapshot_id=number)
            self.by_tag[name] = number, self.model.by_snapshot[number]

    def filter(self) -> None:
        bound = self.rng.randrange(-20, 20)
        name = self.rng.choice(["k", "n"])
        predicate, test = self.rng.choice(
            [
                (col(name) >= bound, lambda v: v is not None and v >= bound),
                (col(name) == bound, lambda v: v == bound),
                (col(name).is_null(), lambda v: v is None),
                (~(col(name) > bound), lambda v: v is not None and not v > bound),
            ]
        )
        got = content_of(self.table, where=predicate)
        expected = sorted_rows(r for r in self.model.content() if test(r[name]))
        if got != expected:
            raise ModelMismatch(f"filter {predicate}: {_difference(got, expected)}")
        columns = self.rng.sample(self.table.schema.names, k=2)
        got = sorted_rows(self.table.to_arrow(columns=columns).to_pylist())
        expected = sorted_rows({c: r[c] for c in columns} for r in self.model.content())
        if got != expected:
            raise ModelMismatch(f"columns {columns}: {_difference(got, expected)}")

    # -- checks ----------------------------------------------------------------------------------
    def compare(self) -> None:
        newest = self.table.latest_snapshot_id
        if newest is None or newest == self.compared:
            return
        self.compared = newest
        got = content_of(self.table)
        if self.expires:
            # a compaction may have met those that are too old by now; a full one has met all
            there, before = {repr(row) for row in got}, self._expired_before()
            self.model.expire(lambda row: (row["t"] or before) < before and repr(row) not in there)
            self.model.committed(newest)
        if got != self.model.content():
            raise ModelMismatch(_difference(got, self.model.content()))
        if self.shape.option("changelog-producer") == "lookup":
            self.compare_told(newest)
        if self.shape.option("changelog-producer") == "input":
            self.compare_given(newest)
        every = self.shape.option("full-compaction.delta-commits")
        if every and self.shape.option("changelog-producer") == "full-compaction":
            self.compare_told_of_all_but(int(every) - 1, newest)
        if self.rng.random() < COUNT_SHARE:
            self.compare_count()

    def _place(self, row) -> tuple[object, ...]:
        names = dict.fromkeys((*self.shape.partition_keys, *self.shape.keys))
        return tuple(row.get(name) for name in names)

    def _by_key(self, rows) -> dict[object, tuple[object, ...]]:
        """Rows by key; without the columns whose changes no changelog must tell."""
        option = "changelog-producer.row-deduplicate-ignore-fields"
        ignored = (self.shape.option(option) or "").split(",")
        keyed = (
            (self._place(row), *(v for name, v in row.items() if name not in ignored))
            for row in rows
        )
        return {row[0]: row for row in keyed}

    def compare_told(self, newest: int) -> None:
        """The changes that the changelog tells, applied to the state before, give the state."""
        self._replay_told(newest)
        if self.told != self._by_key(self.model.content()):
            raise ModelMismatch("the changelog replays to another state")

    def compare_told_of_all_but(self, commits: int, newest: int) -> None:
        """What the last few commits of rows did not touch has been told."""
        moves = self.shape.keys_may_move  # and with them what they are touched by
        waits = self.model.waiting is not None
        if moves or waits or self.trace[-1] not in ("upsert", "delete", "mixed"):
            return
        self._replay_told(newest)
        recent = set().union(*self.newest_keys[max(0, len(self.newest_keys) - commits) :])
        there = self._by_key(self.model.content())
        untold = [k for k in {*self.told, *there} - recent if self.told.get(k) != there.get(k)]
        if untold:
            raise ModelMismatch(f"no full compaction told of {untold[:5]}")

    def _replay_told(self, newest: int) -> None:
        changes = []
        for row in self.table.changes(self.told_until, newest, mode="changelog").to_pylist():
            kind = row.pop("_row_kind")
            ((_, change),) = self._by_key([row]).items()
            changes.append((kind, *change))
        try:
            self.told = replay(self.told, changes)
        except ReplayError as error:
            raise ModelMismatch(f"changelog: {error}") from error
        if self.shape.option("changelog-producer.row-deduplicate") == "true":
            pairs = itertools.pairwise(changes)
            idle = [a for a, b in pairs if (a[0], b[0]) == ("-U", "+U") and a[1:] == b[1:]]
            if idle:
                raise ModelMismatch(f"changelog: updates that change nothing: {idle[:3]}")
        self.told_until = newest

    def _give(self, rows, kinds) -> None:
        """Note what the changelog of the input must say of a commit; before the model takes it.

        Rows that are not stored are not logged; those that wait for their bucket later are.
        """
        ignored = ("-U", "-D") if self.shape.option("ignore-delete") == "true" else ()
        if self.shape.option("ignore-update-before") == "true":
            ignored = (*ignored, "-U")
        changes = [
            (kind, row) for kind, row in zip(kinds, rows, strict=True) if kind not in ignored
        ]
        if changes:
            self.newest_keys.append({self._place(row) for _, row in changes})
        if self.shape.option("changelog-producer") != "input":
            return
        if self.shape.keys_may_move:
            changes = self.model.placed(changes)
        names = self.shape.arrow_schema.names
        logged = [(kind, *(row.get(name) for name in names)) for kind, row in changes]
        (self.given if self.model.waiting is None else self.given_waiting).extend(logged)

    def compare_given(self, newest: int) -> None:
        """The changelog of the input since the last look is the rows that were given."""
        changes = self.table.changes(self.given_until, newest, mode="changelog").to_pylist()
        told = [(row.pop("_row_kind"), *row.values()) for row in changes]
        given, self.given, self.given_until = self.given, [], newest
        if sorted(map(repr, told)) != sorted(map(repr, given)):
            what = _difference(told, given)
            raise ModelMismatch(f"the changelog of the input is not what was given: {what}")

    def compare_count(self) -> None:
        said, there = self.table.count(), len(self.model.content())
        if said != there:
            raise ModelMismatch(f"count() says {said}, there are {there} rows")

    def finish(self) -> None:
        self.compare_count()
        check_table(self.fileio, LOCATION)
        known = sorted(self.model.by_snapshot)
        for snapshot_id in self.rng.sample(known, k=min(SNAPSHOTS_READ_AGAIN, len(known))):
            expected = self.model.by_snapshot[snapshot_id]
            got = content_of(self.table, snapshot_id=snapshot_id)
            if got != expected:
                what = _difference(got, expected)
                raise ModelMismatch(f"seed {self.seed}: snapshot {snapshot_id} changed: {what}")


def _difference(got, expected) -> str:
    missing = [r for r in expected if r not in got][:3]
    extra = [r for r in got if r not in expected][:3]
    return f"{len(got)} rows for {len(expected)}; missing {missing}; not expected {extra}"


def run_seed(seed: int, steps: int = 50, *, fileio=None) -> None:
    """Run one seed, in memory or an empty store; whatever goes wrong, the error names it."""
    try:
        Episode(seed, fileio=fileio).run(steps)
    except ModelMismatch:
        raise
    except Exception as error:
        raise ModelMismatch(f"seed {seed}: {error!r}") from error
