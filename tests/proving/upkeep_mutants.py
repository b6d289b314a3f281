"""Planted bugs of what keeps a table small, each noticed by :mod:`proving.upkeep`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import tidelake.commit.expiry.snapshots as expiry
import tidelake.table.jobs.branching as branching
import tidelake.table.jobs.orphans as orphans
from proving.interleave import Between
from proving.lineage import Broken
from proving.orphan_mutants import _without_branches
from proving.planting import Plant, edited, passed_over, replaced, together
from proving.upkeep import run_seed
from proving.world import NAME, Shape, arrow_of, open_catalog
from tidelake.commit.conflicts import compaction_fit
from tidelake.commit.expiry.consumers import HeldSnapshots
from tidelake.commit.expiry.other_branches import OtherBranches
from tidelake.commit.expiry.snapshots import _Expiry
from tidelake.commit.expiry.tags_and_branches import References
from tidelake.commit.orphans.histories import Histories
from tidelake.errors import NotFoundError
from tidelake.fileio import MemoryFileIO
from tidelake.table.jobs.fast_forward import _Step

RUNS_MAX = 150


@dataclass(frozen=True)
class Mutant:
    """A planted bug."""

    name: str
    seed: int
    """A run that notices it."""
    plant: Plant
    check: Callable[[], None] | None = None
    """What notices it, where runs rarely do."""


def check_branch_of_a_tag_that_goes() -> None:
    """Somebody deletes a tag, the last that needs its files, while a branch is made of it."""
    shape = Shape(("k",), (), None, (("bucket", "1"),))
    files = MemoryFileIO()
    shape.create(open_catalog(files, 1))
    theirs = open_catalog(files, 2).table(NAME)
    row = {"k": 1, "v": "a", "n": 1, "x": None}
    theirs.write(arrow_of(shape, [row]))
    theirs.tags.create("t")
    theirs.compact(full=True)
    theirs.write(arrow_of(shape, [row]), mode="overwrite")
    now = theirs.handle.snapshots.latest().time_ms
    theirs.maintenance.expire_snapshots(retain_max=1, retain_min=1, older_than=now + 1)
    between = Between(
        files, lambda path, _: "/branch-b/snapshot/" in path, lambda: theirs.tags.delete("t")
    )
    try:
        open_catalog(between, 3).table(NAME).branches.create("b", tag="t")
    except NotFoundError:
        return
    try:
        open_catalog(files, 4).table(NAME).branch("b").to_arrow()
    except NotFoundError as error:
        raise Broken(f"a branch without its files: {error}") from error
    raise Broken("nobody deleted the tag")


def _nothing_held(_):
    return lambda *_: HeldSnapshots(None, by_lease=False, forgotten=())


MUTANTS = (
    Mutant(
        "an expiry removes files before their snapshot",
        0,
        replaced(
            _Expiry,
            "remove",
            edited(
                "    if not context.fileio.delete(path, within=self.directory):\n",
                "    remove_files(context, files)\n"
                "    if not context.fileio.delete(path, within=self.directory):\n",
            ),
        ),
    ),
    Mutant("an expiry looks at no reader", 13, replaced(expiry, "held_snapshots", _nothing_held)),
    Mutant(
        "an expiry looks at no tag",
        1,
        replaced(References, "_nearest", lambda _: lambda *_: iter(())),
    ),
    Mutant(
        "an expiry looks at tags once",
        29,
        replaced(_Expiry, "remove", edited("if self.references.refresh():", "if False:")),
    ),
    Mutant(
        "an expiry looks at no other branch",
        0,
        replaced(OtherBranches, "look", passed_over),
    ),
    Mutant(
        "an expiry removes what the next snapshot has",
        0,
        replaced(
            _Expiry,
            "_candidates",
            edited(
                "    metadata.difference_update(*self._named_by(after), self.kept_metadata)\n",
                "",
            ),
        ),
    ),
    Mutant(
        "a branch does not look whether its snapshot is still there",
        0,
        together(
            replaced(
                branching,
                "_copy_start",
                edited(
                    "if not (handle.snapshots.has(snapshot.id) or _is_tagged(handle, snapshot)):",
                    "if False:",
                ),
            ),
            replaced(
                branching,
                "_lasting_tag",
                edited(
                    "if not (handle.snapshots.has(snapshot.id)"
                    " or _is_tagged(handle, snapshot, besides=name)):",
                    "if False:",
                ),
            ),
        ),
        check_branch_of_a_tag_that_goes,
    ),
    Mutant(
        "a fast-forward puts the branch's snapshots beside those that it should replace",
        7,
        replaced(_Step, "_later", lambda _: lambda *_, **__: []),
    ),
    Mutant(
        "an orphan is removed at once, whatever its age",
        16,
        together(
            replaced(orphans, "OLDER_THAN_MS", lambda _: 1),
            replaced(orphans, "decide", edited("NEW)\n        else:", "DUE)\n        else:")),
        ),
    ),
    Mutant(
        "orphans are what main does not name",
        0,
        replaced(Histories, "_look", _without_branches),
    ),
    Mutant(
        "a compaction is not compared with the newest snapshot",
        0,
        replaced(compaction_fit, "check_compaction", passed_over),
    ),
)


def noticed(mutant: Mutant) -> int | None:
    """Plant the bug, and give the run that goes wrong with it.

    The one that is known to notice it comes first: the draws of a run change with each call to the
    storage that an operation needs more or less.
    """
    if mutant.check is not None:
        with mutant.plant():
            try:
                mutant.check()
            except Broken:
                return mutant.seed
    for seed in (mutant.seed, *range(RUNS_MAX)):
        with mutant.plant():
            try:
                run_seed(seed)
            except Broken:
                return seed
    return None
