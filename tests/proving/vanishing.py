"""A cleaner of temporary files beside the lookup files of a table that is asked by key.

1. Drawn steps: write, ask, refresh one of two queries or both at once, open a new one, drop the
   table and make it anew. The two have a :class:`LookupCache` each, as two processes have that
   share a directory.
2. Between steps, and before any call of the system that names a path in the directory, the cleaner
   may remove the whole directory, a directory in it, or one file. It does so a few times in each
   step, so that who begins anew as often comes through.
3. Each answer is compared with a dict: of the snapshot that the query was refreshed to last.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import tidelake
from tidelake.errors import NotFoundError
from tidelake.fileio import MemoryFileIO
from tidelake.lookup import LookupBuild
from tidelake.table.query import local_query
from tidelake.telemetry import Env

__all__ = ["Cleaner", "run_vanishing"]

KEYS = 30
STEPS = 25
REMOVALS_MAX = 5
"""In each step; fewer than a query begins anew."""
CHANCE = 0.15
"""Of a removal before a call of the system."""
EVENTS = frozenset({"open", "os.mkdir", "os.rename", "os.remove", "os.utime", "os.scandir"})
TABLES = (
    {"bucket": "2"},
    {"bucket": "2", "deletion-vectors.enabled": "true"},
    {"bucket": "1", "lookup.cache-max-memory-size": "1 b"},
    {"bucket": "-1", "lookup.cache-file-retention": "1 ms"},
)


class Cleaner:
    """Removes parts of a directory, also while others are in the middle of a step.

    Parameters
    ----------
    directory : Path
        The directory; only what is below it, and itself, is removed.
    rng : Random
        Draws what, and when.
    """

    _at_work: Cleaner | None = None
    _is_hooked = False

    def __init__(self, directory: Path, rng: random.Random) -> None:
        self.directory = directory
        self.removed_count = 0
        self._prefix = str(directory)
        self._rng = rng
        self._lock = threading.RLock()
        self._is_busy = False
        self._left = 0

    @contextlib.contextmanager
    def working(self, removals: int) -> Iterator[None]:
        """Remove so many parts at most, as long as a ``with`` block lasts."""
        if not Cleaner._is_hooked:
            Cleaner._is_hooked = True
            sys.addaudithook(_heard)  # for the life of the process: it cannot be taken away
        self._left = removals
        Cleaner._at_work = self
        try:
            yield
        finally:
            Cleaner._at_work = None

    def heard(self, event: str, path: object) -> None:
        """Remove something, perhaps: a call of the system names a path."""
        if event not in EVENTS or not isinstance(path, (str, os.PathLike)):
            return
        if not os.fspath(path).startswith(self._prefix):
            return
        with self._lock:
            if self._is_busy or not self._left or self._rng.random() > CHANCE:
                return
            self._left -= 1
            self._is_busy = True
            try:
                self.remove()
            finally:
                self._is_busy = False

    def remove(self) -> None:
        """Remove the directory, one in it, or a file."""
        found = sorted(self.directory.rglob("*"))
        what = self._rng.choice([self.directory, *found])
        self.removed_count += what.exists()
        if what.is_dir():
            shutil.rmtree(what, ignore_errors=True)
        else:
            with contextlib.suppress(IsADirectoryError):  # others made it one meanwhile
                what.unlink(missing_ok=True)


def _heard(event: str, arguments: tuple) -> None:
    cleaner = Cleaner._at_work
    if cleaner is not None and arguments:
        cleaner.heard(event, arguments[0])


class _Asker:
    """A process that asks: a query, a cache of its own, and what its answers must be."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.query: local_query.LocalTableQuery | None = None
        self.rows: dict[int, int] = {}

    def open(self, table: tidelake.Table, rows: dict[int, int]) -> None:
        """A new query, as a process has that starts."""
        local_query._CACHES.value.clear()  # those of open queries stay theirs
        self.query = table.local_query(directory=self._directory)
        self.refresh(rows)

    def refresh(self, rows: dict[int, int]) -> None:
        """Answer from the newest snapshot, whose rows these are."""
        assert self.query is not None
        self.query.refresh()
        self.rows = dict(rows)

    def check(self, seed: int) -> None:
        """Every answer is that of the dict."""
        keys = list(range(KEYS + 3))
        expected = [{"k": k, "v": self.rows[k]} if k in self.rows else None for k in keys]
        assert self.query.get_many(keys) == expected, f"seed {seed}"
        assert [self.query.get(k) for k in keys] == expected, f"seed {seed}"


def run_vanishing(seed: int, steps: int = STEPS) -> int:
    """Run some steps; how much was removed.

    Raises
    ------
    AssertionError
        An answer is wrong.
    TidelakeError
        A step failed because something was removed.
    """
    rng = random.Random(seed)
    options = TABLES[seed % len(TABLES)]
    env = Env.seeded(seed)
    catalog = tidelake.open("/w", fileio=MemoryFileIO(), env=env)
    spools = {"spool_bytes": rng.choice([64, 64 << 20])}
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place,
        mock.patch.dict(LookupBuild.__init__.__kwdefaults__, spools),
        ThreadPoolExecutor(2) as threads,
    ):
        directory = Path(place, "lookup")
        cleaner = Cleaner(directory, rng)
        rows: dict[int, int] = {}

        def created() -> tidelake.Table:
            rows.clear()
            return catalog.create_table(
                "db.t", {"k": "INT", "v": "INT"}, primary_keys=["k"], options=options
            )

        def written() -> None:
            keys = rng.sample(range(KEYS), rng.randint(1, KEYS))
            value = rng.randrange(1_000)
            table.write([{"k": k, "v": value} for k in keys])
            rows.update(dict.fromkeys(keys, value))

        table = created()
        written()
        askers = [_Asker(directory), _Asker(directory)]
        for asker in askers:
            asker.open(table, rows)
        for _ in range(steps):
            step = rng.choice(["write", "ask", "refresh", "both", "open", "remake"])
            asker = rng.choice(askers)
            if rng.random() < 0.3 and directory.exists():
                cleaner.remove()
            with cleaner.working(rng.randint(0, REMOVALS_MAX)):
                if step == "write":
                    written()
                elif step == "refresh":
                    asker.refresh(rows)
                elif step == "both":
                    list(threads.map(lambda one: one.refresh(rows), askers))
                elif step == "open":
                    asker.open(table, rows)
                elif step == "remake":
                    catalog.drop_table("db.t")
                    with contextlib.suppress(NotFoundError):
                        asker.query.refresh()
                        raise AssertionError("a dropped table was refreshed")
                    table = created()
                    for one in askers:
                        one.check(seed)  # the answers before stay
                        one.open(table, rows)
                    written()
                    for one in askers:
                        one.refresh(rows)
                for one in askers:
                    one.check(seed)
        return cleaner.removed_count
