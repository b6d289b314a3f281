"""The operations that scenarios are made of, each on the engine and on the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import tidelake
from proving.model import ModelTable
from proving.world import Shape, arrow_of
from tidelake.errors import ConflictError


def rows(shape: Shape, start: int, count: int, tag: str) -> list[dict]:
    """Rows of the keys from `start` on, partitioned where the table is."""
    made = []
    for i in range(start, start + count):
        row: dict = {}
        if shape.partition_keys:
            row["p"] = "ab"[i % 2]
        made.append({**row, "k": i, "v": f"{tag}{i}", "n": i, "x": None})
    return made


@dataclass
class Step:
    """One operation of a scenario, on the engine and on the model."""

    name: str
    engine: Callable
    model: Callable[[ModelTable], None]


def write(shape: Shape, rows, deletes=None) -> Step:
    kinds = None if deletes is None else ["-D" if d else "+I" for d in deletes]
    return Step(
        "write",
        lambda table: table.write(arrow_of(shape, rows), row_kinds=kinds),
        lambda model: model.apply(rows, deletes),
    )


def overwrite(shape: Shape, rows) -> Step:
    return Step(
        "overwrite",
        lambda table: table.write(arrow_of(shape, rows), mode="overwrite"),
        lambda model: model.overwrite(rows, dynamic=True),
    )


def compact(*, full: bool, may_lose: bool = False) -> Step:
    """Beside another process it `may_lose` all buckets to that one; then nothing is changed.

    Without one it may not, whatever failed: a commit of its own is not another's.
    """

    def engine(table) -> None:
        try:
            table.compact(full=full)
        except ConflictError as error:
            if error.kind != "compaction_gave_way":
                raise
            if not may_lose:
                raise AssertionError(f"nobody else was there, and {error!r}") from error

    return Step("compact", engine, lambda _: None)


def drop(value: str) -> Step:
    def model(table: ModelTable) -> None:
        kept = [r for r in table.content() if r["p"] != value]
        table.overwrite(kept, dynamic=False)

    return Step("drop", lambda table: table.drop_partitions([{"p": value}]), model)


def delete(key: int) -> Step:
    def model(table: ModelTable) -> None:
        gone = [r for r in table.content() if r["k"] == key]
        table.apply(gone, [True] * len(gone))

    return Step("delete", lambda table: table.delete(tidelake.col("k") == key), model)


def delete_marked(key: int) -> Step:
    return Step(
        "delete",
        lambda table: table.delete(tidelake.col("k") == key),
        lambda model: model.remove("k", key),
    )


def update(key: int, tag: str) -> Step:
    return Step(
        "update",
        lambda table: table.update({"v": tag}, tidelake.col("k") == key),
        lambda model: model.update("k", key, {"v": tag}),
    )


def tag(name: str) -> Step:
    return Step("tag", lambda table: table.tags.create(name), lambda _: None)


def expire() -> Step:
    """The newest snapshot stays, and the tags."""

    def engine(table) -> None:
        table.maintenance.expire_snapshots(retain_max=1, retain_min=1)

    return Step("expire", engine, lambda _: None)


def roll_back(shape: Shape, rows: list[dict]) -> Step:
    """Back to the first snapshot, which these rows made."""

    def model(table: ModelTable) -> None:
        table.overwrite([], dynamic=False)
        table.apply(rows)

    return Step("rollback", lambda table: table.rollback_to(1), model)


def truncate() -> Step:
    return Step(
        "truncate",
        lambda table: table.truncate(),
        lambda model: model.overwrite([], dynamic=False),
    )


def rescale(buckets: int) -> Step:
    return Step("rescale", lambda table: table.rescale_bucket(buckets), lambda _: None)


def renew(column: str, type_: str, after: str) -> Step:
    """ALTER: the column goes and another of its name comes, null in the rows there are."""
    changes = (
        tidelake.DropColumn(column),
        tidelake.AddColumn(column, type_, None, tidelake.Position.after(after)),
    )
    return Step(
        "alter",
        lambda table: table.alter(*changes),
        lambda model: model.renew(column),
    )


def late(shape: Shape) -> Step:
    """New rows, rows of old keys, and a row taken back."""
    return write(shape, rows(shape, 1, 6, "c"), [i == 2 for i in range(6)])
