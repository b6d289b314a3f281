"""A seeded run of operations on a table and its branches, against a dict of each.

Main and each branch is an :class:`~proving.episode.Episode` of its own: a branch begins as a copy
of the episode that it was made from, at its newest snapshot, and from then on has its own table,
dict and tags. A fast-forward makes main's episode what the branch's is. After it, and after a
branch was deleted, all that are left have the rows that they had.
"""

from __future__ import annotations

import copy
import random

from proving.episode import OPERATIONS, Episode, ModelMismatch
from proving.lineage import forked
from proving.world import NAME, Shape, content_of
from tidelake.errors import UnsupportedError

BRANCHES_MAX = 2
STEPS = (("step", 80), ("create", 10), ("fast_forward", 6), ("delete", 4))


class Branching:
    """One table with branches."""

    def __init__(self, seed: int, *, shape: Shape | None = None) -> None:
        self.rng = random.Random(seed)
        self.main = Episode(seed, shape=shape)
        self.main.leaves_nothing = False  # what only a branch had stays as orphans
        self.branches: dict[str, Episode] = {}
        self.begun_at: dict[str, int] = {}
        self.of_replaced: set[str] = set()
        """Branches of snapshots that a fast-forward took from main."""
        self.made = 0
        self.done: list[str] = []
        self.current = self.main

    def run(self, steps: int) -> None:
        """Do some steps, and compare all lines at the end."""
        names, weights = [n for n, _ in STEPS], [w for _, w in STEPS]
        for _ in range(steps):
            getattr(self, self.rng.choices(names, weights)[0])()
        self.finish()

    def step(self) -> None:
        """One operation on main or a branch."""
        self.switch(self.rng.randrange(1 + len(self.branches)))
        name = self.rng.choices([n for n, _ in OPERATIONS], [w for _, w in OPERATIONS])[0]
        episode = self.current
        episode.trace.append(name)
        self.done.append(f"{episode.name}: {name}")
        if episode.expires:
            episode.clock.sleep_ms(self.rng.choice([0, 1_000, 5_000, 15_000]))
        try:
            getattr(episode, name)()
            episode.compare()
        except ModelMismatch as error:
            raise ModelMismatch(f"{self.done}, shape {episode.shape}: {error}") from error

    def switch(self, number: int) -> None:
        """Go on with main, or with one of the branches."""
        lines = [self.main, *self.branches.values()]
        self.current = lines[number % len(lines)]

    def create(self) -> None:
        """A branch of main's newest snapshot."""
        main = self.main
        newest = main.table.latest_snapshot_id
        if newest is None or len(self.branches) == BRANCHES_MAX:
            return
        main.compare()
        if main.shape.option("changelog-producer") in ("lookup", "full-compaction"):
            main._replay_told(newest)  # the branch has no older snapshot that tells it
        self.made += 1
        name = f"b{self.made}"
        main.table.tags.create(f"start-{name}", snapshot_id=newest)
        main.table.branches.create(name, tag=f"start-{name}")
        self.branches[name] = _copied(main, f"{NAME}$branch_{name}")
        own = self.branches[name]
        own.by_tag, own.last_commit = {}, None
        own.model.by_snapshot = {k: v for k, v in main.model.by_snapshot.items() if k == newest}
        self.begun_at[name] = newest
        self.done.append(f"branch {name} of {newest}")
        self._all_have_their_rows()

    def fast_forward(self) -> None:
        """Main becomes what a branch is."""
        if not self.branches:
            return
        name = self.rng.choice(sorted(self.branches))
        branch, start = self.branches[name], self.begun_at[name]
        self.done.append(f"fast-forward {name}")
        try:
            done = self.main.table.branches.fast_forward(name)
        except UnsupportedError:
            if name not in self.of_replaced:  # main has its start in another history
                raise
            self._all_have_their_rows()
            return
        self.of_replaced |= {
            other for other, begun in self.begun_at.items() if other != name and begun > start
        }
        kept = {tag: own for tag, own in self.main.by_tag.items() if own[0] <= start}
        seen = {
            number: rows
            for number, rows in self.main.model.by_snapshot.items()
            if number < start and number not in done.removed_snapshot_ids
        }
        self.main.__dict__.update(vars(_copied(branch, NAME)))
        self.main.by_tag = {**self.main.by_tag, **kept}
        self.main.model.by_snapshot = {**seen, **branch.model.by_snapshot}
        self._all_have_their_rows()
        known = self.main.table.handle.snapshots.ids()
        if not set(self.main.model.by_snapshot) <= set(known):
            raise ModelMismatch(f"{self.done}: snapshots {known} are there")

    def delete(self) -> None:
        """A branch goes, and the tag that it began at."""
        if not self.branches:
            return
        name = self.rng.choice(sorted(self.branches))
        self.done.append(f"delete {name}")
        self.main.table.branches.delete(name)
        gone = self.branches.pop(name)
        if self.current is gone:
            self.current = self.main
        self._all_have_their_rows()

    def finish(self) -> None:
        """Compare all lines, also their older snapshots."""
        self._all_have_their_rows()
        for episode in (self.main, *self.branches.values()):
            episode.finish()

    def _all_have_their_rows(self) -> None:
        for episode in (self.main, *self.branches.values()):
            try:
                episode.compared = None
                episode.compare()
                for tag, (_, rows) in episode.by_tag.items():
                    if content_of(episode.table, tag=tag) != rows:
                        raise ModelMismatch(f"tag {tag} has other rows")
            except ModelMismatch as error:
                message = f"{self.done}, shape {episode.shape}: {episode.name}: {error}"
                raise ModelMismatch(message) from error


def _copied(episode: Episode, name: str) -> Episode:
    """The same state of another branch; rows are shared, and never changed."""
    made = copy.copy(episode)
    made.name = name
    made.model = forked(episode.model)
    made.model.by_snapshot = dict(episode.model.by_snapshot)
    for own in ("by_tag", "trace", "told", "given", "given_waiting", "newest_keys"):
        setattr(made, own, copy.copy(getattr(episode, own)))
    made.reopen(episode.rng.randrange(2**31))
    return made
