"""Six processes do everything to a few shared tables, and a reader of the files watches them.

Each process upserts, deletes, updates, compacts, expires, tags, reads, rolls back, renames, drops
and creates, as it draws. Rows come in blocks: all keys of a block are written, updated and deleted
by one commit of one process, so

- a block whose rows are not all there, or not all of one commit, shows half a commit,
- a snapshot may differ from the one before it in blocks of its committer alone; a compaction
  changes nothing: so no commit is lost, or comes twice (the sums would tell),
- what a process was told of must be there from then on, until somebody rolls back or drops.

Each process appends what it is about to do and how that ended to a log of its own, with fsync; the
reader takes the files alone (:mod:`proving.snapshot_rows` on plain ``open`` and ``scandir``).

In an object store the same holds, but for renames, which a store refuses; and the reader takes the
objects of the server itself.
"""

from __future__ import annotations

import collections
import contextlib
import faulthandler
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from servers.s3 import S3Server

import tidelake
from proving.fsck import check_table
from proving.snapshot_rows import SnapshotReader, TableKind
from tidelake import col
from tidelake.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidInputError,
    NotFoundError,
    OutcomeUnknownError,
    StorageError,
    StorageRefusedError,
    TidelakeError,
)

PROCESSES = 6
BLOCKS = 5
"""Of each process, in each table."""
BLOCK_ROWS = 8
LAST_BLOCK = 900_000
"""Written when all have ended."""
SCHEMA = pa.schema([("k", pa.int64()), ("b", pa.int64()), ("c", pa.string()), ("n", pa.int64())])
KEYED = {"primary_keys": ["k"]}
TABLES: dict[str, dict] = {
    "plain": {"bucket": "2", "num-sorted-run.compaction-trigger": "3"},
    "marked": {"bucket": "2", "deletion-vectors.enabled": "true"},
    "first": {"bucket": "2", "merge-engine": "first-row", "ignore-delete": "true"},
    "sums": {
        "bucket": "1",
        "merge-engine": "aggregation",
        "fields.n.aggregate-function": "sum",
        "changelog-producer": "lookup",
    },
    "log": {"bucket": "-1", "deletion-vectors.enabled": "true"},
}
OPERATIONS = (
    ("upsert", 50),
    ("delete", 8),
    ("update", 8),
    ("compact", 6),
    ("compact_full", 3),
    ("expire", 5),
    ("tag", 4),
    ("delete_tag", 3),
    ("read", 10),
    ("roll_back", 2),
    ("rename", 1),
    ("create_anew", 1),
)
TAKES_AWAY = frozenset({"roll_back", "rename", "create_anew"})
EXPECTED: dict[type[TidelakeError], frozenset[str] | None] = {
    ConflictError: None,
    NotFoundError: None,
    AlreadyExistsError: None,
    InvalidInputError: frozenset({"rollback_target", "nothing_to_tag"}),
    # the table was renamed, or is being dropped, while a commit was published
    OutcomeUnknownError: frozenset({"outcome_unknown"}),
    # a directory is gone in which a file is being written: only beside a drop or a rename
    StorageError: frozenset({"storage"}),
}
"""Errors that others may cause, and their kinds; None for any."""
IN_STORE: dict[type[TidelakeError], frozenset[str] | None] = {
    # a table is dropped there object by object, while others write to it and create it
    StorageRefusedError: frozenset({"directory_busy", "table_remains"}),
}
"""Further ones in an object store."""
TAKEN_AWAY = ("No such file or directory", "directory_busy", "table_remains")
"""What is said of a table that goes under its writer."""
END_S_MAX = 120
PAUSE_S = 0.02
READER_PAUSE_S = 0.05


class SoakViolation(AssertionError):
    """A promise was broken."""


# ---- a process


class Worker:
    """One of the processes."""

    def __init__(self, warehouse: str, directory: str, number: int, seed: int) -> None:
        self.number = number
        self.rng = random.Random(seed * 1000 + number)
        storage = json.loads(os.environ.get("SOAK_STORAGE", "{}"))
        self.catalog = tidelake.open(warehouse, storage=storage)
        self.expected = {**EXPECTED, **(IN_STORE if storage else {})}
        self.operations = [one for one in OPERATIONS if not storage or one[0] != "rename"]
        self.log = open(f"{directory}/log-{number}", "ab", buffering=0)  # noqa: SIM115
        self.commits = 0
        self.tables: dict[str, object] = {}
        self.again: tuple | None = None
        """A commit of which it is unknown whether it was made."""

    def run(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        names, weights = zip(*self.operations, strict=True)
        while time.monotonic() < until:
            name = self.rng.choice(list(TABLES))
            what = self.rng.choices(names, weights)[0]
            self._do(what, name)
            time.sleep(self.rng.uniform(0, PAUSE_S))

    def note(self, **what: object) -> None:
        self.log.write(json.dumps(what | {"at": time.monotonic()}).encode() + b"\n")
        os.fsync(self.log.fileno())

    def _do(self, what: str, name: str) -> None:
        block = self.number + PROCESSES * self.rng.randrange(BLOCKS)
        self.commits += 1
        commit = f"{self.number}-{self.commits}"
        self.note(do=what, table=name, block=block, commit=commit)
        try:
            done = getattr(self, f"_{what}")(name, block, commit)
        except TidelakeError as error:
            kinds = self.expected.get(type(error), frozenset())
            self.tables.pop(name, None)
            said = f"{type(error).__name__} {error.kind}"
            self.note(end=what, table=name, error=said, message=str(error)[:300])
            if kinds is not None and error.kind not in kinds:
                self.note(fatal=f"{what} of {name}: {error!r}")
                raise
        except BaseException as error:
            self.note(fatal=f"{what} of {name}: {error!r}")
            raise
        else:
            self.note(end=what, table=name, says=done, ok=True)

    def _table(self, name: str):
        if name not in self.tables or self.rng.random() < 0.2:
            self.tables[name] = self.catalog.table(f"db.{name}")
        return self.tables[name]

    def _upsert(self, name: str, block: int, commit: str) -> object:
        table = self._table(name)
        rows = rows_of_block(block, commit)
        if name == "log":  # a block of its own each time
            rows = rows_of_block(int(commit.split("-")[1]) * PROCESSES + self.number, commit)
        return self._commit(table, rows, None, commit)

    def _commit(self, table, rows, kinds, commit: str) -> object:
        batch = pa.Table.from_pylist(rows, schema=SCHEMA)
        try:
            done = table.write(batch, row_kinds=kinds, commit_user=commit, commit_identifier=1)
        except OutcomeUnknownError:
            raise
        if self.rng.random() < 0.05:  # once more: it is there already, or was taken back
            table.write(batch, row_kinds=kinds, commit_user=commit, commit_identifier=1)
        return list(done.snapshot_ids)

    def _delete(self, name: str, block: int, commit: str) -> object:
        table = self._table(name)
        if name == "log":
            return list(
                table.delete(
                    col("b") == self._own_block(table), commit_user=commit, commit_identifier=1
                ).snapshot_ids
            )
        if name in ("first", "sums"):
            return self._upsert(name, block, commit)
        return self._commit(table, rows_of_block(block, commit), ["-D"] * BLOCK_ROWS, commit)

    def _own_block(self, table) -> int:
        """A block of the log, of this process."""
        found = table.to_arrow(columns=["b"])["b"].to_pylist()
        own = sorted({b for b in found if b % PROCESSES == self.number})
        return self.rng.choice(own) if own else -1

    def _update(self, name: str, block: int, commit: str) -> object:
        table = self._table(name)
        if name in ("first", "sums"):
            return self._upsert(name, block, commit)
        block = self._own_block(table) if name == "log" else block
        done = table.update(
            {"c": commit}, col("b") == block, commit_user=commit, commit_identifier=1
        )
        return list(done.snapshot_ids)

    def _compact(self, name: str, *_: object) -> object:
        return list(self._table(name).compact().snapshot_ids)

    def _compact_full(self, name: str, *_: object) -> object:
        return list(self._table(name).compact(full=True).snapshot_ids)

    def _expire(self, name: str, *_: object) -> object:
        kept = self.rng.choice([2, 5, 20])
        expired = self._table(name).maintenance.expire_snapshots(retain_max=kept, retain_min=1)
        return list(expired.ids)

    def _tag(self, name: str, block: int, commit: str) -> object:
        self._table(name).tags.create(f"t{commit}")
        return f"t{commit}"

    def _delete_tag(self, name: str, *_: object) -> object:
        table = self._table(name)
        tags = [t for t in table.handle.tags.names() if t.startswith(f"t{self.number}-")]
        for tag in tags[2:]:
            table.tags.delete(tag)
        return tags[2:]

    def _read(self, name: str, *_: object) -> object:
        rows = self._table(name).to_arrow().to_pylist()
        problems = wrong_blocks(rows)
        if problems:
            raise SoakViolation(f"a reader of {name} sees {problems[:3]}")
        return len(rows)

    def _roll_back(self, name: str, *_: object) -> object:
        table = self._table(name)
        newest = table.latest_snapshot_id
        if newest is None:
            return None
        target = max(1, newest - self.rng.randrange(1, 6))
        done = table.rollback_to(snapshot_id=target)
        return [done.previous_snapshot_id, done.snapshot_id]

    def _rename(self, name: str, block: int, commit: str) -> object:
        away = f"db.away-{commit}"
        self.catalog.rename_table(f"db.{name}", away)
        time.sleep(self.rng.uniform(0, 0.05))
        try:
            self.catalog.rename_table(away, f"db.{name}")
        except AlreadyExistsError:
            self.catalog.drop_table(away)
            return "made anew by another"
        return "and back"

    def _create_anew(self, name: str, *_: object) -> object:
        self.catalog.drop_table(f"db.{name}", if_missing="ignore")
        create(self.catalog, name)
        return None


def create(catalog, name: str) -> None:
    """Make one of the tables."""
    keys = {} if name == "log" else KEYED
    catalog.create_table(f"db.{name}", SCHEMA, **keys, options=TABLES[name], if_exists="ignore")


def rows_of_block(block: int, commit: str) -> list[dict]:
    """The rows of a block; their keys are apart, so that they lie in all buckets."""
    return [
        {"k": i * 1_000_000 + block, "b": block, "c": commit, "n": 1} for i in range(BLOCK_ROWS)
    ]


def wrong_blocks(rows: list[dict]) -> list[str]:
    """Blocks that are not whole."""
    return [
        f"block {block}: {len(own)} of {BLOCK_ROWS} rows, of {sorted({r['c'] for r in own})},"
        f" n {sorted({r['n'] for r in own})}"
        for block, own in _by_block(rows).items()
        if len(own) != BLOCK_ROWS or len({(r["c"], r["n"]) for r in own}) != 1
    ]


def _by_block(rows: list[dict]) -> dict[int, list[dict]]:
    blocks: dict[int, list[dict]] = {}
    for row in rows:
        blocks.setdefault(row["b"], []).append(row)
    return blocks


# ---- the reader of the files


class PlainFiles:
    """Files by ``open`` and ``scandir``: what the reader needs of a storage."""

    @dataclass(frozen=True)
    class Status:
        """A name in a directory."""

        name: str
        is_dir: bool
        size_bytes: int = 0

    def read_bytes(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()

    def list_dir(self, path: str) -> list[Status]:
        try:
            with os.scandir(path) as entries:
                return [self.Status(e.name, e.is_dir()) for e in entries]
        except FileNotFoundError:
            return []


class BucketFiles:
    """Objects of the server, without a request: the same for an object store."""

    def __init__(self, s3: S3Server) -> None:
        self._s3 = s3

    def read_bytes(self, path: str) -> bytes:
        found = self._s3.bucket().get(path[1:])
        if found is None:
            raise FileNotFoundError(path)
        return found.data

    def list_dir(self, path: str) -> list[PlainFiles.Status]:
        below = [key[len(path) :] for key in self._s3.listing(f"{path[1:]}/")]
        names = {name.partition("/")[0]: "/" in name for name in below}
        return [PlainFiles.Status(name, is_dir) for name, is_dir in names.items()]


Held = dict[int, tuple[str, int]]
"""What a snapshot holds: of each block the commit that wrote it, and its sum."""


@dataclass
class Watch:
    """What the reader knows of one table."""

    name: str
    location: str
    reader: SnapshotReader
    made: bytes = b""
    """The schema file that it began with: a table created anew has another."""
    held: dict[tuple, Held] = field(default_factory=dict)
    """By what makes a snapshot another one than that of the same id after a rollback."""
    gone: str = ""
    """What was missing when a snapshot could last not be read."""


class Reader:
    """Reads the tables' files and checks them."""

    def __init__(self, warehouse: str, files: PlainFiles | BucketFiles) -> None:
        self.files = files
        self.watches = [self._watch(name, f"{warehouse}/db.db/{name}") for name in TABLES]
        self.counts: collections.Counter[str] = collections.Counter()

    def _watch(self, name: str, location: str) -> Watch:
        keys = () if name == "log" else ("k",)
        kind = TableKind(keys, SCHEMA.names, (), (), TABLES[name])
        return Watch(name, location, SnapshotReader(self.files, location, kind))

    def look(self, watch: Watch) -> None:
        """Read the newest snapshots of a table, and one of its tags."""
        ids = self._ids(watch)
        try:
            made = self.files.read_bytes(f"{watch.location}/schema/schema-0")
        except FileNotFoundError:
            return
        if made != watch.made:
            watch.made, watch.held = made, {}
        documents = [self._document(watch, f"snapshot/snapshot-{i}") for i in ids[-3:]]
        before: dict | None = None
        for document in documents:
            held = None if document is None else self.held(watch, document)
            if document is not None and before is not None and held is not None:
                self._compare(watch, before, document)
            before = document if held is not None else None
        names = [s.name for s in self.files.list_dir(f"{watch.location}/tag")]
        # a temporary file beside them is no tag yet
        for tag in [name for name in names if name.startswith("tag-")][:1]:
            document = self._document(watch, f"tag/{tag}")
            if document is not None and self.held(watch, document) is not None:
                self.counts["tags"] += 1

    def _ids(self, watch: Watch) -> list[int]:
        names = [s.name for s in self.files.list_dir(f"{watch.location}/snapshot")]
        return sorted(
            int(n.removeprefix("snapshot-"))
            for n in names
            if n.startswith("snapshot-") and n.removeprefix("snapshot-").isdigit()
        )

    def _document(self, watch: Watch, path: str) -> dict | None:
        try:
            return watch.reader.document(path)
        except FileNotFoundError:
            return None

    def held(self, watch: Watch, document: dict) -> Held | None:
        """What a snapshot holds; None where it goes, or its table, while it is read."""
        key = _marks(document)
        try:
            rows = watch.reader.rows(document)
        except (FileNotFoundError, KeyError) as error:
            self.counts["gone while read"] += 1
            who = f"snapshot {document['id']} of {document['commitUser']}"
            watch.gone = f"{who}: {type(error).__name__} {error}"
            return None
        problems = wrong_blocks(rows)
        if problems:
            raise SoakViolation(f"{watch.name}, snapshot {document['id']}: {problems[:3]}")
        held = {block: (own[0]["c"], own[0]["n"]) for block, own in _by_block(rows).items()}
        self.counts["snapshots"] += key not in watch.held
        self.counts["reads"] += 1
        if watch.held.setdefault(key, held) != held:
            what = _unlike(watch.held[key], held)
            raise SoakViolation(f"{watch.name}, snapshot {document['id']} has changed: {what}")
        return held

    def shown(self, watch: Watch) -> str:
        """What a table has now: its snapshots, tags and hints, and when it was made."""
        directory = watch.location
        names = {
            folder: sorted(s.name for s in self.files.list_dir(f"{directory}/{folder}"))
            for folder in ("snapshot", "tag", "schema")
        }
        hints = {
            hint: self._text(f"{directory}/snapshot/{hint}") for hint in ("EARLIEST", "LATEST")
        }
        made = json.loads(self._text(f"{directory}/schema/schema-0") or "{}").get("timeMillis")
        return f"{names}, hints {hints}, made at {made} ms, last missing: {watch.gone or 'nothing'}"

    def _text(self, path: str) -> str | None:
        try:
            return self.files.read_bytes(path).decode(errors="replace")
        except FileNotFoundError:
            return None

    def _compare(self, watch: Watch, before: dict, after: dict) -> None:
        """A snapshot differs from the one before in blocks of its committer alone."""
        if after["id"] != before["id"] + 1:
            return
        if self._document(watch, f"snapshot/snapshot-{before['id']}") != before:
            return  # rolled back meanwhile: the later one was read on another
        old, new = watch.held[_marks(before)], watch.held[_marks(after)]
        changed = {b for b in {*old, *new} if old.get(b) != new.get(b)}
        who = str(after["commitUser"]).split("-")[0]
        may = {b for b in changed if who == str(b % PROCESSES)}
        if after["commitKind"] == "COMPACT":
            may = set()
        if changed - may:
            what = _unlike(old, new)
            raise SoakViolation(
                f"{watch.name}, snapshot {after['id']} of {after['commitUser']}"
                f" ({after['commitKind']}) changes what is not its own: {what}"
            )
        self.counts["pairs"] += 1


def _marks(document: dict) -> tuple:
    names = ("id", "commitUser", "commitIdentifier", "commitKind", "deltaManifestList")
    return tuple(document[name] for name in names)


def _unlike(old: Held, new: Held) -> str:
    differing = [b for b in {*old, *new} if old.get(b) != new.get(b)]
    return "; ".join(f"block {b}: {old.get(b)} then {new.get(b)}" for b in sorted(differing)[:5])


# ---- the whole


def soak(
    directory: Path,
    *,
    seconds: float,
    seed: int,
    processes: int = PROCESSES,
    s3: S3Server | None = None,
) -> dict:
    """Let the processes work; the figures, or SoakViolation where a promise broke."""
    place = str(directory / "warehouse") if s3 is None else "/house"
    warehouse = place if s3 is None else f"s3://lake{place}"
    storage = {} if s3 is None else s3.storage()
    catalog = tidelake.open(warehouse, storage=storage)
    for name in TABLES:
        create(catalog, name)
    children = [
        subprocess.Popen(
            [sys.executable, "-m", "proving.soak", warehouse, str(directory), *map(str, each)],
            stderr=open(directory / f"stderr-{each[0]}", "wb"),  # noqa: SIM115
            env={**os.environ, "SOAK_STORAGE": json.dumps(storage)},
        )
        for each in [(n, seed, seconds) for n in range(processes)]
    ]
    reader = Reader(place, PlainFiles() if s3 is None else BucketFiles(s3))
    began = time.monotonic()
    try:
        while any(child.poll() is None for child in children):
            for watch in reader.watches:
                with _showing(reader, watch):
                    reader.look(watch)
            time.sleep(READER_PAUSE_S)
            failed = any(child.poll() not in (None, 0) for child in children)
            if failed or time.monotonic() - began > seconds + END_S_MAX:
                break
    finally:
        for child in children:
            if child.poll() is None:
                child.kill()
    _judge_processes(directory, children)
    logs = [read_log(directory / f"log-{n}") for n in range(processes)]
    _judge_errors(logs)
    for watch in reader.watches:
        with _showing(reader, watch):
            if not reader.files.list_dir(f"{watch.location}/schema"):
                create(catalog, watch.name)
            reader.look(watch)
            _judge_told(watch, reader, logs)
            _all_works(catalog, watch)
            reader.look(watch)
    ended = [entry for log in logs for entry in log if "end" in entry]
    done = collections.Counter(entry["end"] for entry in ended if entry.get("ok"))
    errors = collections.Counter(entry["error"] for entry in ended if "error" in entry)
    figures = {"processes": processes, "minutes": round((time.monotonic() - began) / 60, 1)}
    return figures | {
        "done": dict(done.most_common()),
        "refused": dict(errors.most_common()),
        "reader": dict(reader.counts),
        "violations": 0,
    }


@contextlib.contextmanager
def _showing(reader: Reader, watch: Watch) -> Iterator[None]:
    """Say with a failure what the table has at that moment."""
    try:
        yield
    except (AssertionError, TidelakeError) as error:
        said = str(error) or repr(error)
        raise SoakViolation(f"{watch.name}: {said}; it has {reader.shown(watch)}") from error


def read_log(path: Path) -> list[dict]:
    """What a process was about to do, and how it ended."""
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def _judge_processes(directory: Path, children: list[subprocess.Popen]) -> None:
    wrong = []
    for number, child in enumerate(children):
        if (code := child.wait()) == 0:
            continue
        log = read_log(directory / f"log-{number}")
        fatal = [entry["fatal"] for entry in log if "fatal" in entry]
        stderr = (directory / f"stderr-{number}").read_text()[-2000:]
        if code != -signal.SIGKILL:
            wrong.append(f"process {number} ended with {code}: {fatal} {stderr}")
        elif not wrong:
            wrong.append(f"process {number} did not end, its last: {log[-1]}")
    if wrong:
        raise SoakViolation(wrong[-1])


def _judge_errors(logs: list[list[dict]]) -> None:
    """A directory goes under a writer only where somebody drops or renames the table."""
    away = [
        (do["table"], do["at"], end["at"])
        for log in logs
        for do, end in _pairs(log)
        if do["do"] in ("rename", "create_anew")
    ]
    for do, end in (pair for log in logs for pair in _pairs(log)):
        if not end.get("error", "").startswith(("StorageError", "StorageRefusedError")):
            continue
        beside = any(t == do["table"] and a < end["at"] and do["at"] < b for t, a, b in away)
        is_known = any(said in end["error"] + end["message"] for said in TAKEN_AWAY)
        if not beside or not is_known:
            raise SoakViolation(f"{do} ended with {end['message']}")


def _judge_told(watch: Watch, reader: Reader, logs: list[list[dict]]) -> None:
    """The last commit of each block that was told of is there, if nobody took it away since."""
    away = _taken_away(watch.name, logs)
    ids = reader._ids(watch)
    document = reader._document(watch, f"snapshot/snapshot-{ids[-1]}") if ids else None
    held = {} if document is None else reader.held(watch, document)
    if held is None:
        raise SoakViolation(f"its newest snapshot, {ids[-1]}, cannot be read: {watch.gone}")
    if watch.name in ("first", "log"):
        return  # a later row changes nothing, or has a block of its own: pairs of snapshots tell
    for number, log in enumerate(logs):
        last: dict[int, tuple[dict, dict]] = {}
        for do, end in _pairs(log):
            if do["table"] == watch.name and do["do"] in ("upsert", "delete", "update"):
                last[do["block"]] = (do, end)
        for block, (do, end) in last.items():
            if not end.get("ok") or not end["says"] or away > do["at"]:
                continue
            reader.counts["told"] += 1
            found = held.get(block, (None, 0))[0]
            wanted = None if do["do"] == "delete" and watch.name != "sums" else do["commit"]
            if found != wanted:
                raise SoakViolation(
                    f"{watch.name}: process {number} was told of {do}, and there is {found}"
                )


def _taken_away(name: str, logs: list[list[dict]]) -> float:
    """When somebody last took away what others had committed."""
    times = [0.0]
    for log in logs:
        times += [
            end["at"] for do, end in _pairs(log) if do["table"] == name and do["do"] in TAKES_AWAY
        ]
    return max(times)


def _pairs(log: list[dict]):
    """What was begun, with how it ended."""
    begun: dict | None = None
    for entry in log:
        if "do" in entry:
            begun = entry
        elif "end" in entry and begun is not None:
            yield begun, entry
            begun = None


def _all_works(catalog, watch: Watch) -> None:
    """With nobody beside it a table does everything."""
    table = catalog.table(f"db.{watch.name}")
    rows = rows_of_block(LAST_BLOCK, "0-0")
    batch = pa.Table.from_pylist(rows, schema=SCHEMA)
    table.write(batch, commit_user="0-end", commit_identifier=1)
    for _ in range(2):
        table.compact(full=True)
        seen = table.to_arrow().to_pylist()
        problems = wrong_blocks(seen)
        if problems or not any(row["b"] == LAST_BLOCK for row in seen):
            raise SoakViolation(f"{watch.name} in the end: {problems[:3]}")
        table.maintenance.expire_snapshots(retain_max=2, retain_min=1)
        table.rollback_to(snapshot_id=table.latest_snapshot_id)
    check_table(table.fileio, watch.location)


if __name__ == "__main__":
    faulthandler.dump_traceback_later(float(sys.argv[5]) + 240, exit=True)
    Worker(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])).run(float(sys.argv[5]))
