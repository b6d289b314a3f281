"""Seeded runs of operations on an append table whose rows are clustered, against a list of rows.

What is crossed: clustering (each order; incremental; in buckets) with deletion vectors, row
tracking, partitions, file indexes, changes of columns, branches, and commits of others between the
plan of a clustering and its commit. Behind each operation the rows must be those of the list, also
by a filter. At the end older snapshots are read again, files are checked by the independent fsck,
and rows that are tracked have had one id all the time.
"""

from __future__ import annotations

import copy
import random
from dataclasses import dataclass, field

import pyarrow as pa

from proving.fsck import check_table
from proving.lineage import difference
from proving.model import Row, sorted_rows
from proving.world import NAME, open_catalog
from tidelake.errors import ConflictError
from tidelake.fileio import MemoryFileIO
from tidelake.table.jobs.clustering import order_of
from tidelake.table.jobs.compaction import Chosen
from tidelake.table.jobs.table_compaction import plan_of_table
from tidelake.table.write.transaction import WriteTransaction

STEPS = 25
BRANCHES_MAX = 2
COLUMNS = {"id": "BIGINT", "p": "STRING", "n": "INT", "s": "STRING", "x": "DOUBLE"}
OPERATIONS = (
    ("write", 30),
    ("delete", 8),
    ("update", 5),
    ("overwrite", 3),
    ("cluster", 16),
    ("beside", 10),
    ("alter", 6),
    ("branch", 4),
    ("publish", 3),
    ("switch", 8),
)
CHANGES = frozenset({"delete", "update", "overwrite", "cluster"})
"""What replaces files, or marks rows in them."""


class ClusteredMismatch(AssertionError):
    """The table and the list disagree."""


@dataclass
class Line:
    """Main or a branch: its rows, its columns, its snapshots."""

    name: str
    rows: list[Row] = field(default_factory=list)
    columns: list[str] = field(default_factory=lambda: list(COLUMNS))
    by_snapshot: dict[int, tuple[list[Row], list[str]]] = field(default_factory=dict)
    ids: dict[object, int] = field(default_factory=dict)
    """Ids of rows that are tracked, by `id`."""


class Clustered:
    """One seeded run."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(f"{seed} clustered")
        self.is_incremental = rng.random() < 0.5
        self.in_buckets = rng.random() < 0.35
        self.is_tracked = not self.in_buckets and rng.random() < 0.4
        self.partition_keys = ["p"] if rng.random() < 0.5 else []
        self.options = self._options()
        self.files = MemoryFileIO()
        self.catalog = open_catalog(self.files, seed)
        self.catalog.create_table(
            NAME, COLUMNS, partition_keys=self.partition_keys, options=self.options
        )
        self.lines = {"main": Line("main")}
        self.line = self.lines["main"]
        self.next_id = self.added = 0
        self.done: list[str] = []
        self.met: set[str] = set()
        """What this run crossed."""

    def _options(self) -> dict[str, str]:
        rng = self.rng
        options = {
            "clustering.columns": ",".join(self._draw_columns()),
            "clustering.strategy": rng.choice(["auto", "order", "zorder", "hilbert"]),
            "num-sorted-run.compaction-trigger": rng.choice("235"),
            "target-file-size": rng.choice(["1 kb", "128 mb"]),
        }
        if self.is_incremental:
            options["clustering.incremental"] = "true"
        if self.in_buckets:
            options |= {"bucket": "2", "bucket-key": "id", "bucket-append-ordered": "false"}
        if self.is_tracked:
            options["row-tracking.enabled"] = "true"
        if not (self.in_buckets and self.is_incremental) and rng.random() < 0.6:
            options["deletion-vectors.enabled"] = "true"
        if rng.random() < 0.4:
            options["file-index.bloom-filter.columns"] = "s"
            options["file-index.bitmap.columns"] = "n"
        return options

    def _draw_columns(self) -> list[str]:
        return self.rng.sample(["n", "s", "x"], self.rng.choice([1, 2, 2, 3]))

    @property
    def table(self):
        name = self.line.name
        return self.catalog.table(NAME if name == "main" else f"{NAME}$branch_{name}")

    def run(self, steps: int = STEPS) -> None:
        """Do all steps, then check what is left."""
        names, weights = zip(*OPERATIONS, strict=True)
        for _ in range(steps):
            name = self.rng.choices(names, weights)[0]
            self.done.append(f"{self.line.name}: {name}")
            try:
                getattr(self, name)()
                self._compare()
            except ClusteredMismatch as error:
                raise ClusteredMismatch(f"{self.options}, {self.done}: {error}") from error
        self._finish()

    # -- operations ------------------------------------------------------------------------------

    def _drawn(self, count: int) -> list[Row]:
        rng, rows = self.rng, []
        for _ in range(count):
            row: Row = dict.fromkeys(self.line.columns)
            row |= {"id": self.next_id, "p": rng.choice(["a", "b", "c/d"])}
            row["n"] = rng.choice([None, *range(-20, 20)])
            row["s"] = rng.choice([None, "", f"text-{rng.randrange(50)}", "é" * rng.randrange(12)])
            row["x"] = rng.choice([None, rng.uniform(-9, 9)])
            rows.append(row)
            self.next_id += 1
        return rows

    def _arrow(self, rows: list[Row]) -> pa.Table:
        return pa.Table.from_pylist(rows, schema=self.table.schema)

    def write(self) -> None:
        rows = self._drawn(self.rng.choice([1, 5, 40, 200]))
        self.table.write(self._arrow(rows))
        self.line.rows += rows

    def delete(self) -> None:
        limit = self.rng.randrange(-20, 20)
        self.table.delete(f"n = {limit}")
        self.line.rows = [r for r in self.line.rows if r["n"] != limit]

    def update(self) -> None:
        limit = self.rng.randrange(-20, 20)
        self.table.update({"s": "new"}, f"n = {limit}")
        self.line.rows = [r | {"s": "new"} if r["n"] == limit else r for r in self.line.rows]

    def overwrite(self) -> None:
        rows = self._drawn(self.rng.choice([1, 30]))
        self.table.write(self._arrow(rows), mode="overwrite")
        touched = {r["p"] for r in rows}
        kept = [r for r in self.line.rows if r["p"] not in touched] if self.partition_keys else []
        self.line.rows = kept + rows

    def _order(self, table):
        if self.is_incremental:
            return None
        strategy = self.rng.choice(["order", "zorder", "hilbert"])
        return order_of(table.handle, strategy, self._draw_columns())

    def cluster(self) -> None:
        self._carry_out(self._plan(), beside="")

    def _plan(self):
        table = self.table
        order, full = self._order(table), self.rng.random() < 0.4
        return table, plan_of_table(table.handle, Chosen(), full=full, order=order)

    def _carry_out(self, planned, *, beside: str) -> None:
        table, plan = planned
        if not plan.tasks:
            return
        kinds = ["buckets"] * self.in_buckets + ["tracked"] * self.is_tracked
        kinds += [key for key in ("deletion-vectors.enabled",) if key in self.options]
        kinds += ["partitions"] * bool(self.partition_keys)
        kinds += ["file index"] * ("file-index.bitmap.columns" in self.options)
        kinds += ["columns"] * bool(self.added) + ["branch"] * (self.line.name != "main")
        joins = self.in_buckets and not self.is_incremental  # a write joins files of its bucket
        replaces = beside in CHANGES or (joins and beside == "write")
        before = None if replaces else [f.file_name for f in _files(table)]
        try:
            done = plan.carry_out(WriteTransaction(table.handle), _Here())
        except ConflictError as error:
            if not replaces:
                raise ClusteredMismatch(f"{error!r} beside {beside or 'nobody'}") from error
            self.met.add("conflict")
            return
        if done.compactions_dropped and not replaces:
            raise ClusteredMismatch(f"dropped {done.compactions_dropped} beside {beside}")
        if before is not None:
            left = {f.file_name for f in _files(table)}
            gone = set().union(*(task.names for task in plan.tasks))
            if left & gone or not set(before) - gone <= left:
                raise ClusteredMismatch("other files were replaced than planned")
        self.met |= {*kinds, "incremental" if self.is_incremental else "sorted"}
        if beside:
            self.met.add(f"beside {beside}")

    def beside(self) -> None:
        """Somebody commits between the plan of a clustering and its end."""
        planned = self._plan()
        name = self.rng.choice(["write", "write", "delete", "update", "overwrite", "cluster"])
        before = self.table.latest_snapshot_id
        getattr(self, name)()
        moved = self.table.latest_snapshot_id != before
        self._carry_out(planned, beside=name if moved else "")

    def alter(self) -> None:
        table, line = self.table, self.line
        kind = self.rng.choice(["add", "rename", "drop", "widen", "recluster"])
        extra = [name for name in line.columns if name.startswith("c")]
        if kind == "add" or (kind in ("rename", "drop") and not extra):
            self.added += 1
            table.add_column(f"c{self.added}", "INT")
            line.columns.append(f"c{self.added}")
            line.rows = [row | {f"c{self.added}": None} for row in line.rows]
        elif kind == "rename":
            old = self.rng.choice(extra)
            self.added += 1
            table.rename_column(old, f"c{self.added}")
            line.columns[line.columns.index(old)] = f"c{self.added}"
            line.rows = [
                {f"c{self.added}" if n == old else n: v for n, v in row.items()}
                for row in line.rows
            ]
        elif kind == "drop":
            old = self.rng.choice(extra)
            table.drop_column(old)
            line.columns.remove(old)
            line.rows = [{n: v for n, v in row.items() if n != old} for row in line.rows]
        elif kind == "widen":
            table.retype_column("n", "BIGINT")  # perhaps again
        else:
            table.set_options({"clustering.columns": ",".join(self._draw_columns())})

    # -- branches --------------------------------------------------------------------------------

    def branch(self) -> None:
        main = self.lines["main"]
        newest = self.catalog.table(NAME).latest_snapshot_id
        if newest is None or len(self.lines) > BRANCHES_MAX:
            return
        self.added += 1
        name = f"b{self.added}"
        self.catalog.table(NAME).tags.create(name, snapshot_id=newest)
        self.catalog.table(NAME).branches.create(name, tag=name)
        rows, columns = main.by_snapshot[newest]  # columns of a later change are not in it
        own = Line(name, list(rows), list(columns), {newest: main.by_snapshot[newest]})
        own.ids = dict(main.ids)
        self.lines[name] = own

    def publish(self) -> None:
        """Main becomes what a branch is, unless main went on."""
        name = self.rng.choice([None, *self.lines][1:])
        if name == "main" or not self.lines[name].by_snapshot:
            return
        own = self.lines[name]
        self.catalog.table(NAME).branches.fast_forward(name)
        start = min(own.by_snapshot)
        seen = {n: s for n, s in self.lines["main"].by_snapshot.items() if n < start}
        main = copy.deepcopy(own)
        main.name, main.by_snapshot = "main", seen | main.by_snapshot
        self.lines = {"main": main}  # the others' snapshots of main may be gone
        self.line = main

    def switch(self) -> None:
        self.line = self.lines[self.rng.choice(sorted(self.lines))]

    # -- checks ----------------------------------------------------------------------------------

    def _compare(self) -> None:
        table, line = self.table, self.line
        got = sorted_rows(table.to_arrow().to_pylist())
        if got != sorted_rows(line.rows):
            raise ClusteredMismatch(difference(got, sorted_rows(line.rows)))
        low = self.rng.randrange(-20, 20)
        inside = [r for r in line.rows if r["n"] is not None and low <= r["n"] <= low + 6]
        found = table.to_arrow(where=f"n between {low} and {low + 6}").to_pylist()
        if sorted_rows(found) != sorted_rows(inside):
            raise ClusteredMismatch(f"{len(found)} rows by a filter, {len(inside)} expected")
        text = f"text-{self.rng.randrange(50)}"
        if table.count(where=f"s = '{text}'") != sum(r["s"] == text for r in line.rows):
            raise ClusteredMismatch(f"other rows of {text}")
        newest = table.latest_snapshot_id
        if newest is not None:
            line.by_snapshot.setdefault(newest, (list(line.rows), list(line.columns)))
        if self.is_tracked:
            self._compare_ids(table)

    def _compare_ids(self, table) -> None:
        rows = table.system_table("row_tracking").to_arrow().to_pylist()
        now = {row["id"]: row["_ROW_ID"] for row in rows}
        if len(set(now.values())) != len(now):
            raise ClusteredMismatch("two rows have one id")
        for key, row_id in now.items():
            if self.line.ids.setdefault(key, row_id) != row_id:
                raise ClusteredMismatch(f"row {key} has another id")

    def _finish(self) -> None:
        for line in self.lines.values():
            self.line = line
            table = self.table
            for number, (rows, _) in line.by_snapshot.items():
                if sorted_rows(table.to_arrow(snapshot_id=number).to_pylist()) != sorted_rows(rows):
                    raise ClusteredMismatch(f"{self.done}: snapshot {number} of {line.name}")
        table = self.catalog.table(NAME)
        # a column of tracked rows has the name of one that keys have
        check_table(self.files, table.location, read_data=not self.is_tracked)


class _Here:
    """Runs all tasks of a plan."""

    def run(self, plan, into) -> None:
        plan.run(plan.tasks, into)


def _files(table):
    return [file for split in table.plan().splits for file in split.files]


def run_seed(seed: int, steps: int = STEPS) -> set[str]:
    """One run; what it crossed."""
    run = Clustered(seed)
    run.run(steps)
    return run.met
