"""The options ``local-cache.*``: off unless asked for, on the disk, bounded, shared, checked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import tidelake
from tidelake.catalog.rest.settings import storage_map
from tidelake.errors import InvalidInputError
from tidelake.fileio import CachedFileIO, LocalFileIO
from tidelake.fileio.local_cache import local_cache
from tidelake.sql import SqlSession, execute, parse

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.string())])
ROWS = [{"k": k, "v": f"row {k}"} for k in range(100)]
MIB = 1 << 20


def asked(directory, **more):
    named = {f"local-cache.{name.replace('_', '-')}": value for name, value in more.items()}
    return {"local-cache.enabled": "true", "local-cache.dir": str(directory), **named}


def opened(s3, **cache):
    return tidelake.open("s3://lake/w", storage={**s3.storage(), **cache})


@pytest.fixture
def lake(s3):
    """A store with a table of 100 rows."""
    opened(s3).create_table("db.t", SCHEMA, primary_keys=["k"], options={"bucket": "1"}).write(ROWS)
    s3.forget()
    return s3


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


def read(s3, **cache):
    found = opened(s3, **cache).table("db.t").to_arrow()
    assert found.sort_by("k").to_pylist() == ROWS


def entries(directory) -> list[Path]:
    return sorted(p for p in Path(directory).rglob("*") if p.is_file())


def test_it_is_off_unless_it_is_asked_for(lake, cache):
    read(lake)
    read(lake, **{**asked(cache), "local-cache.enabled": "false"})
    assert not cache.exists()
    assert lake.count("GET", "bucket-0/") == 2


def test_files_that_never_change_are_fetched_once_and_the_others_each_time(lake, cache):
    for _ in range(3):
        read(lake, **asked(cache))
    assert lake.count("GET", "bucket-0/") == 1
    assert lake.count("GET", "/manifest/") == 3  # two lists, one manifest
    for name in ("LATEST", "snapshot/snapshot-1", "schema/schema-0"):
        assert lake.count("GET", name) >= 3, name


def test_what_others_commit_is_seen_at_once(lake, cache):
    read(lake, **asked(cache))
    opened(lake).table("db.t").write([{"k": 1, "v": "new"}])
    assert opened(lake, **asked(cache)).table("db.t").get(1) == {"k": 1, "v": "new"}


def test_processes_share_it(lake, cache):
    read(lake, **asked(cache))
    lake.forget()
    program = (
        "import sys, tidelake; from ast import literal_eval;"
        "print(tidelake.open('s3://lake/w', storage=literal_eval(sys.argv[1])).table('db.t')"
        ".to_arrow().num_rows)"
    )
    storage = str({**lake.storage(), **asked(cache)})
    done = subprocess.run(
        [sys.executable, "-c", program, storage], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["100"]
    assert lake.count("GET", "snapshot/") > 0
    assert lake.count("GET", "bucket-0/") == lake.count("GET", "/manifest/") == 0


def test_damage_is_noticed(lake, cache):
    read(lake, **asked(cache))
    for entry in entries(cache):
        data = bytearray(entry.read_bytes())
        data[len(data) // 2] ^= 1
        entry.write_bytes(data)
    read(lake, **asked(cache))
    assert lake.count("GET", "bucket-0/") == 2
    read(lake, **asked(cache))
    assert lake.count("GET", "bucket-0/") == 2


def test_it_takes_no_more_of_the_disk_than_it_may(s3, cache):
    files = opened(s3, **asked(cache, max_size="1 mb")).fileio
    for number in range(60):
        name = f"/w/t/bucket-0/data-0b2f4c3e-52cf-4b3a-9f0e-6f0d7c1f{number:04x}-0.parquet"
        files.write_once(name, bytes(50_000))
        assert len(files.read_bytes(name)) == 50_000
        assert sum(entry.stat().st_size for entry in entries(cache)) <= MIB
    assert len(entries(cache)) > 10


def test_only_the_kinds_that_are_asked_for_are_kept(lake, cache):
    for _ in range(2):
        read(lake, **asked(cache, whitelist="meta, global-index"))
    assert lake.count("GET", "bucket-0/") == 2
    assert lake.count("GET", "/manifest/") == 3


def test_buckets_and_endpoints_that_share_a_directory_are_kept_apart(lake, cache):
    read(lake, **asked(cache))
    other = tidelake.open("gs://lake/w", storage={**asked(cache)}).fileio
    mine = opened(lake, **asked(cache)).fileio
    assert isinstance(mine, CachedFileIO)
    assert isinstance(other, CachedFileIO)
    [name] = [f"/{key}" for key in lake.listing("w/db.db/t/bucket-0")]
    assert mine._entries(name)
    assert not other._entries(name)


def test_a_catalog_and_sql_take_the_same_options(lake, cache, tmp_path):
    options = {**lake.storage(), **asked(cache)}
    tidelake.open("s3://lake/w", catalog={"type": "filesystem", **options}).table("db.t").to_arrow()
    assert entries(cache)
    session = SqlSession(tidelake.open(str(tmp_path / "w")))
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    text = f"CREATE CATALOG c WITH ('type'='paimon', 'warehouse'='s3://lake/w', {listed})"
    [statement] = parse(text)
    execute(statement, session)
    lake.forget()
    assert session.catalogs["c"].table("db.t").to_arrow().num_rows == 100
    assert lake.count("GET", "bucket-0/") == 0


def test_near_files_are_not_kept(tmp_path, cache):
    catalog = tidelake.open(str(tmp_path / "w"), storage=asked(cache))
    assert isinstance(catalog.fileio, LocalFileIO)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"local-cache.enabled": "yes"}, "'local-cache.enabled' must be true or false"),
        ({"local-cache.enabled": "true"}, "'local-cache.dir' is needed"),
        (asked("cache"), "'local-cache.dir' must be an absolute path"),
        (asked("/c", max_size="many"), "'local-cache.max-size' must be"),
        (asked("/c", max_size="1 kb"), "'local-cache.max-size' must be 1 mb or more"),
        (asked("/c", whitelist="meta,rows"), "'local-cache.whitelist' must be some of"),
        (asked("/c", block_size="1 mb"), "'local-cache.block-size' means nothing here"),
        (asked("/c", max_sise="1 mb"), "unknown. Did you mean 'local-cache.max-size'"),
    ],
)
def test_what_is_wrong_is_refused_when_the_catalog_is_opened(given, said):
    for warehouse in ("s3://lake/w", "/local"):
        with pytest.raises(InvalidInputError, match=said):
            tidelake.open(warehouse, storage=given)


def test_a_catalog_s_server_may_not_choose_a_directory_here():
    assert storage_map({**asked("/c"), "s3.endpoint": "https://s"}) == {"s3.endpoint": "https://s"}


def test_one_that_is_off_is_checked_too():
    with pytest.raises(InvalidInputError, match="absolute"):
        local_cache({"local-cache.dir": "here"})
