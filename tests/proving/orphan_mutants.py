"""Planted bugs of the removal of orphan files."""

from __future__ import annotations

from dataclasses import dataclass

import tidelake.commit.orphans.histories as histories
import tidelake.table.jobs.orphans as orphans
from proving.orphan_runs import OrphanBroken, run_life
from proving.planting import Plant, edited, passed_over, replaced, together
from tidelake.commit.orphans import NamedFiles, OrphanQuarantine
from tidelake.commit.orphans.histories import Histories
from tidelake.errors import TidelakeError


@dataclass(frozen=True)
class Mutant:
    """A planted bug."""

    name: str
    seed: int
    """The first life that notices it."""
    plant: Plant


def _without_branches(look):
    def look_at(self):
        return self._look_at(histories.MAIN)

    return look_at


MUTANTS = (
    Mutant(
        "a file counts as old whatever its age",
        8,
        replaced(orphans, "OLDER_THAN_MS", lambda _: 1),
    ),
    Mutant(
        "an orphan is removed by the run that finds it",
        2,
        together(
            replaced(
                orphans,
                "decide",
                edited("NEW)\n        else:", "DUE)\n        else:"),
            ),
        ),
    ),
    Mutant(
        "an orphan does not wait in quarantine",
        8,
        replaced(orphans, "decide", edited("DUE if since_ms < older_than_ms else WAITING", "DUE")),
    ),
    Mutant(
        "tags name nothing",
        7,
        replaced(Histories, "_look_at", edited("paths.tag_dir, tags)", "paths.tag_dir, {})")),
    ),
    Mutant(
        "branches name nothing",
        2,
        replaced(Histories, "_look", _without_branches),
    ),
    Mutant(
        "long-lived changelogs name nothing",
        0,
        replaced(
            Histories,
            "_look_at",
            edited("paths.changelog_dir, changelogs)", "paths.changelog_dir, {})"),
        ),
    ),
    Mutant(
        "older snapshots name nothing",
        0,
        replaced(
            Histories,
            "_snapshots",
            edited(
                "return listed | ",
                "listed = dict(sorted(listed.items())[-1:])\n    return listed if listed else ",
            ),
        ),
    ),
    Mutant(
        "leases hold nothing",
        4,
        replaced(NamedFiles, "reader_without_snapshot", passed_over),
    ),
    Mutant(
        "statistics are not named",
        0,
        replaced(
            NamedFiles,
            "_read_beside",
            edited("if snapshot.statistics is not None:", "if not 1:"),
        ),
    ),
    Mutant(
        "index files are not named",
        1,
        replaced(
            NamedFiles,
            "_read_beside",
            edited("self._names.update(entry.file.file_name for entry in entries)", "pass"),
        ),
    ),
    Mutant(
        "lists of manifests are not named",
        0,
        replaced(NamedFiles, "_list", edited("self._names.add(name)", "pass")),
    ),
    Mutant(
        "only the delta of a snapshot is read",
        0,
        replaced(
            NamedFiles,
            "_of_state",
            edited("in source.state_lists:", "in source.state_lists[1:]:"),
        ),
    ),
    Mutant(
        "what a user keeps is removed",
        4,
        replaced(OrphanQuarantine, "kept", lambda _: lambda _: frozenset()),
    ),
    Mutant(
        "what a run removes now is undeleted",
        4,
        replaced(OrphanQuarantine, "being_removed", lambda _: lambda _: frozenset()),
    ),
)


def notices(mutant: Mutant, seed: int) -> bool:
    """Whether a life goes wrong with a planted bug."""
    with mutant.plant():
        try:
            run_life(seed)
        except (OrphanBroken, TidelakeError):
            return True
    return False
