"""Drawn lives of branches: no expiry, tag, rollback or branch takes a file that another needs."""

from __future__ import annotations

import contextlib
import random

import pytest
from proving.expiring import ALL, TABLES, make, rows
from proving.reach import missing
from sizes import SIZE

import tidelake
from tidelake import InvalidInputError, UnsupportedError
from tidelake.fileio import MemoryFileIO
from tidelake.telemetry import Env

KINDS = ["append", "append-dv", "none", "dynamic", "lookup", "input", "dv", "partitions"]
LIVED = {**TABLES["lookup"], "changelog.num-retained.max": "9", "changelog.num-retained.min": "1"}


class Life:
    """One table, its branches, and what every snapshot and tag of them showed when it was made."""

    def __init__(self, seed: int, **options) -> None:
        self.draw = random.Random(seed)
        self.files = MemoryFileIO()
        self.table = make(self.files, **options)
        self.catalog = tidelake.open("/w", fileio=self.files, env=Env.seeded(1_000 + seed))
        self.shown: dict[str, list] = {}
        self.made = 0
        self.branches = ["main"]
        self.log: list[str] = []
        self.untold: set[int] = set()
        self.write("main", self.table)

    def on(self, name: str):
        return self.catalog.table("db.t").branch(name)

    def note(self, branch: str) -> None:
        """Remember what new snapshots of a branch show."""
        opened = self.on(branch)
        for number in opened.handle.snapshots.ids():
            made = opened.handle.snapshots.load(number).base_manifest_list
            if made not in self.shown:
                self.shown[made] = rows(opened, snapshot_id=number)

    def step(self) -> None:
        branch = self.draw.choice(self.branches)
        table = self.on(branch)
        act = self.draw.choice(
            ["write"] * 5
            + ["delete", "compact", "expire", "expire", "tag", "untag"]
            + ["fork", "fork", "drop", "rollback", "forward"]
        )
        self.log.append(f"{branch}: {act}")
        getattr(self, act)(branch, table)
        for name in self.branches:
            self.note(name)
        gone = missing(self.files, self.table.handle.paths.location, untold=self.untold)
        assert gone == set(), self.log

    def write(self, branch, table) -> None:
        self.made += 1
        keys = self.draw.sample(range(8), 3)
        table.write([{"k": k, "v": self.made, "p": "ab"[k % 2]} for k in keys])

    def delete(self, branch, table) -> None:
        table.delete(f"k = {self.draw.randrange(8)}")

    def compact(self, branch, table) -> None:
        table.compact(full=True)

    def expire(self, branch, table) -> None:
        table.maintenance.expire_snapshots(**ALL)
        table.maintenance.expire_changelogs(**ALL)

    def tag(self, branch, table) -> None:
        ids = table.handle.snapshots.ids()
        if ids:
            self.made += 1
            table.tags.create(f"t{self.made}", snapshot_id=self.draw.choice(ids))

    def untag(self, branch, table) -> None:
        names = [tag.name for tag in table.tags]
        if names:
            with contextlib.suppress(InvalidInputError):  # a branch began there
                table.tags.delete(self.draw.choice(names))

    def fork(self, branch, table) -> None:
        if len(self.branches) > 3:
            return
        self.made += 1
        name = f"b{self.made}"
        tags, ids = [tag.name for tag in table.tags], table.handle.snapshots.ids()
        starts = [{"tag": t} for t in tags] + [{"snapshot_id": i} for i in ids] + [{}]
        start = self.draw.choice(starts)
        table.branches.create(name, **start)
        if "tag" in start:  # which does not keep its snapshot's changelog
            began = table.handle.tags.load(start["tag"]).snapshot.id
            self.untold |= {began} - set(ids)
        self.branches.append(name)

    def drop(self, branch, table) -> None:
        if branch != "main":
            table.branches.delete(branch)
            self.branches.remove(branch)

    def rollback(self, branch, table) -> None:
        ids = table.handle.snapshots.ids()
        if ids:
            table.rollback_to(snapshot_id=self.draw.choice(ids))

    def forward(self, branch, table) -> None:
        if branch == "main" or table.latest_snapshot_id is None:
            return
        shown = rows(table)
        try:
            self.on("main").branches.fast_forward(branch)
        except UnsupportedError as error:
            self.log.append(str(error))
            return
        assert rows(self.on("main")) == shown, self.log
        assert self.on("main").latest_snapshot_id == table.latest_snapshot_id

    def check(self) -> None:
        """All that is there reads as when it was made."""
        for branch in self.branches:
            table = self.on(branch)
            for number in table.handle.snapshots.ids():
                made = table.handle.snapshots.load(number).base_manifest_list
                assert rows(table, snapshot_id=number) == self.shown[made], (number, self.log)
            for tag in table.tags:
                made = table.handle.tags.load(tag.name).snapshot.base_manifest_list
                assert rows(table, tag=tag.name) == self.shown[made], (tag.name, self.log)


@pytest.mark.parametrize("kind", [*KINDS, "lived"])
@pytest.mark.parametrize("seed", range(SIZE.branch_lives))
def test_what_a_branch_needs_stays(kind, seed):
    life = Life(seed, **(LIVED if kind == "lived" else TABLES[kind]))
    for _ in range(SIZE.branch_steps):
        life.step()
    life.check()
