"""A table in memory and committers on it; data files are names only here."""

from __future__ import annotations

from unit.metadata.made import BIGINT, EMPTY_ROW, data_file, partition

from tidelake.commit import CommitContext, Committer
from tidelake.fileio import MemoryFileIO
from tidelake.metadata import (
    CommitMessage,
    ManifestCache,
    SchemaLog,
    SnapshotLog,
    TablePaths,
    live_entries,
)
from tidelake.options import Options
from tidelake.telemetry import Env
from tidelake.testing import FaultyFileIO
from tidelake.types import DataField, TableSchema, parse_type

LOCATION = "/wh/db.db/t"
KEYED = TableSchema(
    0,
    (DataField(0, "k", BIGINT.not_null()), DataField(1, "v", parse_type("STRING"))),
    1,
    primary_keys=("k",),
    options={"bucket": "2"},
)
APPEND = TableSchema(0, KEYED.fields, 1)
PARTITIONED = TableSchema(
    0,
    (DataField(2, "p", parse_type("STRING")), *KEYED.fields),
    2,
    partition_keys=("p",),
    primary_keys=("p", "k"),
    options={"bucket": "2"},
)


class RemoteMemory(MemoryFileIO):
    """Files in memory that say that they are far away, so independent calls go side by side."""

    @property
    def is_remote(self):
        return True

    @property
    def holds_directories(self):
        return False


class RemoteHolding(RemoteMemory):
    """As HDFS: far away, and an open directory is more than its path."""

    @property
    def holds_directories(self):
        return True


class World:
    """One table; `fileio` may be replaced by one that fails."""

    files = MemoryFileIO

    def __init__(self, schema=KEYED, **options):
        self.fileio = self.files()
        self.schema = schema
        self._read = ManifestCache(1 << 24)
        self.paths = TablePaths.of(LOCATION, schema)
        self.options = Options.parse(
            {k.replace("_", "-"): str(v) for k, v in options.items()} | dict(schema.options)
        )
        assert SchemaLog(self.fileio, self.paths).create(schema)

    def context(self, seed=1, *, fileio=None, env=None):
        return CommitContext(
            fileio or self.fileio,
            self.paths,
            schema=self.schema,
            options=self.options,
            env=env or Env.seeded(seed),
            manifests=ManifestCache(1 << 24),
            table="db.t",
        )

    def committer(self, seed=1, *, fileio=None, env=None):
        return Committer(self.context(seed, fileio=fileio, env=env))

    @property
    def log(self):
        return SnapshotLog(self.fileio, self.paths)

    def live(self, snapshot_id=None):
        """Names of the live files by (partition, bucket, level), read afresh."""
        snapshot = self.log.latest() if snapshot_id is None else self.log.load(snapshot_id)
        if snapshot is None:
            return {}
        table = live_entries(self.fileio, self.paths, snapshot, self._read)
        assert snapshot.total_record_count == int(table["row_count"].sum())
        found = {}
        for e in table.to_entries():
            found.setdefault((e.partition, e.bucket, e.file.level), set()).add(e.file.file_name)
        return found

    def names(self, snapshot_id=None):
        return set().union(*self.live(snapshot_id).values())

    def kinds(self):
        return [self.log.load(i).commit_kind.value for i in self.log.ids()]

    def manifest_files(self):
        return {s.name for s in self.fileio.list_dir(self.paths.manifest_dir)}

    def referenced_manifest_files(self):
        """Manifests and lists that some snapshot names."""
        names = set()
        for snapshot_id in self.log.ids():
            snapshot = self.log.load(snapshot_id)
            for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list):
                names.add(name)
                listed = self._read.manifest_list(self.fileio, self.paths, name)
                for manifest in listed:
                    size = self.fileio.size(self.paths.manifest(manifest.file_name))
                    assert size == manifest.file_size_bytes
                    names.add(manifest.file_name)
        return names


def message(*files, place=(EMPTY_ROW, 0), total_buckets=2, before=(), after=()):
    files = tuple(data_file(f) if isinstance(f, str) else f for f in files)
    return CommitMessage(*place, total_buckets, files, tuple(before), tuple(after))  # type: ignore[call-arg]


__all__ = [
    "APPEND",
    "EMPTY_ROW",
    "KEYED",
    "LOCATION",
    "PARTITIONED",
    "RemoteMemory",
    "World",
    "data_file",
    "message",
    "partition",
]


class Racing(FaultyFileIO):
    """Lets somebody else commit right before each of the first puts of a snapshot."""

    def __init__(self, world, times, rival=None):
        super().__init__(world.fileio)
        self.world, self.times, self.raced = world, times, 0
        self.rival = rival or self.append

    def append(self, number):
        self.world.committer(100 + number).commit(
            [message(f"rival{number}")], user="rival", identifier=number
        )

    def put_if_absent(self, path, data, **held):
        if self.raced < self.times and "/snapshot-" in path:
            self.raced += 1
            self.rival(self.raced)
        return super().put_if_absent(path, data, **held)


def keyed(name, keys, *, sequences=(0, 9), level=0):
    """A file of a primary-key table."""
    return data_file(name, keys=keys, sequences=sequences, level=level)


A, B, C = (partition(p) for p in "abc")


def partitioned_world():
    world = World(PARTITIONED)
    world.committer(1).commit(
        [message(f"{p}0", place=(key, 0)) for p, key in (("a", A), ("b", B), ("c", C))],
        user="u",
        identifier=1,
    )
    return world
