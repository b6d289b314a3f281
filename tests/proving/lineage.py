"""What each snapshot of a table must hold, by who published it on what; told by the storage alone.

A storage notes each snapshot, tag and table that comes or goes. Behind each of these calls the
lineage says what must be there now, and looks:

1. A snapshot holds what its base held and **all** that its commit wrote, or what its base held
   where it only compacts. The files say so (:mod:`proving.snapshot_rows`), and so does the engine,
   from that very moment on.
2. The base is the snapshot that was the newest. A commit that stands on another, which was rolled
   back or was of a table dropped since, may be there for a moment only: its writer takes it away.
3. A tag holds what its snapshot held.
4. A branch's first snapshot is one of the table's; what follows there is as in 1. A fast-forward
   gives the table the branch's snapshots.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from proving.model import MergedTable, ModelTable, Row
from proving.snapshot_rows import POSTPONE, SnapshotReader, TableKind
from proving.world import LOCATION, Shape
from tidelake.errors import NotFoundError
from tidelake.fileio import MemoryFileIO, OpenDirectory
from tidelake.telemetry import Clock

_SNAPSHOT = re.compile(re.escape(LOCATION) + r"/snapshot/snapshot-(\d+)$")
_BRANCH = re.compile(re.escape(LOCATION) + r"/branch/branch-([^/]+)/snapshot/snapshot-(\d+)$")
_TAG = re.compile(re.escape(LOCATION) + r"/tag/tag-(.+)$")
_TABLE = f"{LOCATION}/schema/schema-0"


class Watched(MemoryFileIO):
    """A storage that notes which files came, and whether any went.

    Parameters
    ----------
    holds : bool
        Whether it has directories that can be held open; in a store they are only paths.
    """

    def __init__(self, clock: Clock | None = None, *, holds: bool = True) -> None:
        super().__init__(clock=clock)
        self._holds = holds
        self.came: list[str] = []
        self.has_lost = False
        """Whether a file or directory went since the lineage looked."""

    def forked(self, clock: Clock) -> Watched:
        """The same files, whose changes from now on are its own; their bytes are shared."""
        made = Watched(clock, holds=self._holds)
        made._files = dict(self._files)
        made._dirs = {path: dict(names) for path, names in self._dirs.items()}
        return made

    @property
    def holds_directories(self) -> bool:
        return self._holds

    def _resolved(self, path: str, within: OpenDirectory | None) -> str:
        return super()._resolved(path, within if self._holds else None)

    def put_if_absent(self, path: str, data: bytes, **within: object) -> bool:
        done = super().put_if_absent(path, data, **within)
        if done and path.startswith(LOCATION):
            self.came.append(path)
        return done

    def replace(self, path: str, data: bytes, **within: object) -> None:
        super().replace(path, data, **within)
        if path.startswith(LOCATION):
            self.came.append(path)

    def delete(self, path: str, **named: object) -> bool:
        self.has_lost = True
        return super().delete(path, **named)

    def delete_dir(self, path: str) -> None:
        self.has_lost = True
        super().delete_dir(path)

    def move_dir(self, source: str, target: str) -> None:
        self.has_lost = True
        super().move_dir(source, target)


class Broken(AssertionError):
    """A promise was broken."""


@dataclass(frozen=True)
class Effect:
    """What a commit does to the rows.

    Parameters
    ----------
    number : int
        Of the commit; a repeat of it has the same.
    act : callable
        Does it to a model.
    """

    number: int
    act: Callable[[ModelTable], None]


@dataclass(eq=False)
class State:
    """What a snapshot must hold."""

    snapshot_id: int
    model: ModelTable
    commits: frozenset[int]
    marks: tuple[object, ...] = ()
    waiting: tuple[frozenset[str], ...] = ()
    """Files of the postpone bucket, of each commit that waits there."""
    table_number: int = 0
    """Of which table of the name."""
    is_stale: bool = False
    """Whether it stands on what was rolled back before it came."""
    base: State | None = field(default=None, repr=False)

    @property
    def content(self) -> list[Row]:
        return self.model.content()

    @property
    def own(self) -> frozenset[int]:
        """The commit that it brought."""
        return self.commits - (frozenset() if self.base is None else self.base.commits)


def forked(model: ModelTable) -> ModelTable:
    """A copy whose changes are its own; rows are shared, and never changed."""
    made = copy.copy(model)
    made.state, made.appended = dict(model.state), list(model.appended)
    if model.waiting is not None:
        made.waiting = [(list(rows), list(flags), kind) for rows, flags, kind in model.waiting]
    if isinstance(made, MergedTable) and isinstance(model, MergedTable):
        made.changes = {key: list(own) for key, own in model.changes.items()}
        made.found = dict(model.found)
    return made


class Lineage:
    """The states of one table, and of those that had its name before."""

    def __init__(self, files: Watched, shape: Shape) -> None:
        self.files = files
        self.shape = shape
        kind = TableKind(
            shape.keys,
            shape.arrow_schema.names,
            shape.partition_keys,
            () if shape.sequence_field is None else tuple(shape.sequence_field.split(",")),
            dict(shape.options),
        )
        self.reader = SnapshotReader(files, LOCATION, kind)
        self.table_number = 0
        """How many tables of this name there have been."""
        self.is_there = False
        self.states: dict[int, State] = {}
        self.tags: dict[str, State] = {}
        self.known: list[State] = []
        """All states of this table, also those that are gone."""
        self.branches: dict[str, dict[int, State]] = {}
        """States of branches, by id; those that are gone there too."""
        self.before: list[State] = []
        """All states of the tables that had the name before."""
        self.history: list[State | None] = [None]
        """The newest state, from the beginning on; None while there is no table."""
        self.lasting: dict[int, int] = {}
        """Commits that are there and were not rolled back; which table's they are."""
        self.untold: set[int] = set()
        """Snapshots that a rollback took from a tag, which keeps no changelog."""
        self.empty = State(0, shape.model(), frozenset())

    def forked(self, files: Watched) -> Lineage:
        """What is known so far, on a copy of the storage; states are shared, and never changed."""
        made = copy.copy(self)
        made.files = files
        made.reader = self.reader.of(files)
        made.states, made.tags, made.known = dict(self.states), dict(self.tags), list(self.known)
        made.branches = {name: dict(own) for name, own in self.branches.items()}
        made.before, made.history = list(self.before), list(self.history)
        made.lasting, made.untold = dict(self.lasting), set(self.untold)
        return made

    @property
    def newest(self) -> State | None:
        if not self.is_there:
            return None
        return self.states[max(self.states)] if self.states else self.empty

    def look(self, effect: Effect | None = None, target: State | None = None) -> list[State]:
        """What came and went with the last call; the new states.

        Parameters
        ----------
        effect : Effect, optional
            What the caller commits.
        target : State, optional
            What the caller rolls back to, or fast-forwards to.
        """
        files = self.files
        came, files.came = files.came, []
        if files.has_lost:
            files.has_lost = False
            self._went(target)
        new = []
        for path in came:
            if not files.exists(path):
                continue  # it went into a directory that has another name, or none
            if path == _TABLE:
                self._begin()
            elif match := _SNAPSHOT.match(path):
                new.append(self._snapshot(int(match[1]), effect, target))
            elif match := _BRANCH.match(path):
                self._branch_snapshot(match[1], int(match[2]), effect)
            elif match := _TAG.match(path):
                self._tag(match[1])
        if self.history[-1] is not self.newest:
            self.history.append(self.newest)
        return new

    def _begin(self) -> None:
        self.table_number += 1
        self.is_there = True
        self.before += [*self.known, self.empty]
        self.known = []
        self.empty = State(0, self.shape.model(), frozenset(), table_number=self.table_number)

    def _went(self, target: State | None) -> None:
        for snapshot_id in [i for i in self.states if not self._has_snapshot(i)]:
            self._take_back(self.states.pop(snapshot_id), target)
        for name in [n for n in self.branches if not self._has_branch(n)]:
            del self.branches[name]
        for name in [n for n in self.tags if not self.files.exists(f"{LOCATION}/tag/tag-{n}")]:
            del self.tags[name]
        if self.is_there and not self.files.exists(_TABLE):
            self.is_there = False
            self.lasting.clear()

    def _take_back(self, state: State, target: State | None) -> None:
        """Forget commits of a state that is gone, as far as they are to go with it."""
        taken_back = state.own if state.is_stale else frozenset()
        if target is not None:
            taken_back |= state.commits - target.commits
        for number in taken_back:
            self.lasting.pop(number, None)

    def _has_branch(self, name: str) -> bool:
        return bool(self.files.list_dir(f"{LOCATION}/branch/branch-{name}/snapshot"))

    def _has_snapshot(self, snapshot_id: int) -> bool:
        return self.files.exists(f"{LOCATION}/snapshot/snapshot-{snapshot_id}")

    def _tag(self, name: str) -> None:
        document = self.reader.document(f"tag/tag-{name}")
        marks = _marks(document)
        found = [state for state in self.known if state.marks == marks]
        if not found:
            raise Broken(f"tag {name} holds a snapshot that never was: {marks}")
        self.tags[name] = found[-1]

    def _snapshot(
        self, snapshot_id: int, effect: Effect | None, target: State | None = None
    ) -> State:
        document = self.reader.document(f"snapshot/snapshot-{snapshot_id}")
        marks = _marks(document)
        if target is not None and (published := self._of_a_branch(marks)) is not None:
            before = self.states.get(snapshot_id)
            if before is not None and before is not published:
                self._take_back(before, target)
            self.states[snapshot_id] = published
            if published not in self.known:
                self.known.append(published)
            return published
        for state in self.known:
            if state.marks == marks:  # a rollback gives an expired snapshot its file back
                self.states[snapshot_id] = state
                self.untold.add(snapshot_id)
                return state
        there = self._base_of(snapshot_id)
        bases = [] if there is None else [there]
        earlier = [*self.before, self.empty, *self.known]
        bases += [s for s in reversed(earlier) if s.snapshot_id == snapshot_id - 1]
        what = f"snapshot {snapshot_id} ({document['commitKind']}, {effect and effect.number})"
        held = self._held(document, what)
        tried = []
        for base in bases:
            state = self._after(base, document, effect)
            if state.content == held:
                state.is_stale = base is not there
                self.states[snapshot_id] = state
                self.known.append(state)
                self.untold.discard(snapshot_id)
                for number in state.own:
                    self.lasting[number] = self.table_number
                return state
            tried.append(difference(held, state.content))
        if not tried:
            raise Broken(f"{what} came, and no snapshot before it ever was")
        raise Broken(f"{what} holds neither all nor none of its commit: {tried[0]}")

    def _held(self, document: dict, what: str) -> list[Row]:
        try:
            return self.reader.rows(document)
        except (NotFoundError, FileNotFoundError) as error:
            raise Broken(f"{what} names what is not there: {error}") from error

    def _of_a_branch(self, marks: tuple[object, ...]) -> State | None:
        states = (state for own in self.branches.values() for state in own.values())
        return next((state for state in states if state.marks == marks), None)

    def _branch_snapshot(self, name: str, snapshot_id: int, effect: Effect | None) -> None:
        """What a snapshot of a branch must hold: what its base held, and all of its commit."""
        where = f"branch/branch-{name}/snapshot/snapshot-{snapshot_id}"
        document = self.reader.document(where)
        own = self.branches.setdefault(name, {})
        marks = _marks(document)
        start = next((state for state in self.known if state.marks == marks), None)
        if start is not None:
            own[snapshot_id] = start
            return
        base = own.get(snapshot_id - 1)
        what = f"snapshot {snapshot_id} of branch {name} ({document['commitKind']})"
        if base is None:
            raise Broken(f"{what} came, and no snapshot before it ever was")
        state = self._after(base, document, effect)
        held = self._held(document, what)
        if held != state.content:
            raise Broken(f"{what}: {difference(held, state.content)}")
        own[snapshot_id] = state

    def _base_of(self, snapshot_id: int) -> State | None:
        if not self.is_there:
            return None
        if snapshot_id == 1:
            return None if self.states else self.empty
        later = any(i >= snapshot_id for i in self.states)
        return None if later else self.states.get(snapshot_id - 1)

    def _after(self, base: State, document: dict, effect: Effect | None) -> State:
        """The state that a commit makes of another."""
        model, waiting = forked(base.model), list(base.waiting)
        commits = base.commits
        delta = self.reader.delta(document)
        if document["commitKind"] in ("APPEND", "OVERWRITE") and effect is not None:
            before = len(model.waiting or ())
            effect.act(model)
            commits |= {effect.number}
            new = frozenset(name for kind, bucket, name in delta if bucket == POSTPONE and not kind)
            waiting += [new] * (len(model.waiting or ()) - before)
        gone = {name for kind, bucket, name in delta if bucket == POSTPONE and kind}
        if gone and document["commitKind"] == "OVERWRITE":  # of its partitions; the model did so
            waiting = [names - gone for names in waiting]
        elif gone:
            given = [number for number, names in enumerate(waiting) if names and names <= gone]
            _give(model, given)
            waiting = [names for number, names in enumerate(waiting) if number not in given]
        return State(
            document["id"],
            model,
            commits,
            _marks(document),
            waiting=tuple(waiting),
            table_number=base.table_number,
            base=base,
        )


def _give(model: ModelTable, given: list[int]) -> None:
    """Give commits that wait their buckets."""
    waiting, model.waiting = model.waiting or [], None
    for number in given:
        rows, flags, kind = waiting[number]
        model.apply(rows, flags, kind=kind)
    model.waiting = [commit for number, commit in enumerate(waiting) if number not in given]


def _marks(document: dict) -> tuple[object, ...]:
    names = ("id", "commitUser", "commitIdentifier", "commitKind", "deltaManifestList")
    return tuple(document[name] for name in (*names, "baseManifestList"))


def difference(got: list[Row], expected: list[Row]) -> str:
    """What is missing and what is too much."""
    missing = [row for row in expected if row not in got]
    extra = [row for row in got if row not in expected]
    return (
        f"{len(got)} rows for {len(expected)}; {len(missing)} missing {missing[:2]};"
        f" {len(extra)} not expected {extra[:2]}"
    )
