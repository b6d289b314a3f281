"""Tags keep a snapshot under a name, in Paimon's form."""

import json
from pathlib import Path

import pytest
from unit.metadata.log.test_snapshot import snapshot
from unit.metadata.made import PATHS, fixture_tables

from tidelake.errors import AlreadyExistsError, CorruptError, InvalidInputError, NotFoundError
from tidelake.fileio import MemoryFileIO
from tidelake.metadata import Tag, TagLog
from tidelake.telemetry import ManualClock

GOLDEN = Path(__file__).parents[3] / "golden" / "tag.json"


def test_a_tag_with_a_retention_is_written_as_the_golden_file_shows():
    tags = TagLog(MemoryFileIO(), PATHS)
    tag = tags.create("v1", snapshot(), time_retained_ms=86_400_000, clock=ManualClock())
    assert tag.to_json() + "\n" == GOLDEN.read_text(encoding="utf-8")
    assert tags.load("v1") == tag


def test_a_tag_without_a_retention_is_the_snapshot_s_file():
    fileio = MemoryFileIO()
    TagLog(fileio, PATHS).create("v1", snapshot())
    assert fileio.read_bytes(PATHS.tag("v1")) == snapshot().to_json().encode()


def test_the_tags_of_java_are_read(oracle_dir):
    read = {}
    for name, fileio, paths in fixture_tables(oracle_dir):
        tags = TagLog(fileio, paths)
        for tag in tags.names():
            read[name, tag] = tags.load(tag)
            document = json.loads(fileio.read_bytes(paths.tag(tag)))
            assert read[name, tag].snapshot.id == document["id"]
            again = Tag.from_json(read[name, tag].to_json(), name=tag, path="x")
            assert again == read[name, tag]
    tagged = read["warehouse_1_3_1.db/pk_agg_lookup", "tag1"]
    kept = [t for t in read.values() if t.time_retained_ms is not None]
    assert tagged in kept or kept
    assert {t.time_retained_ms for t in kept} == {86_400_000}
    assert all(not t.snapshot.extra for t in kept)


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        ([1970, 1, 1, 0, 0], 0),
        ([1970, 1, 1, 0, 0, 1], 1000),
        ([1970, 1, 2, 0, 0, 0, 5_000_000], 86_400_005),
        ([2026, 11, 21, 0, 13, 40, 912468074], 1795220020912),
    ],
)
def test_zero_parts_of_a_time_may_be_missing(made, expected):
    document = snapshot().to_document() | {"tagCreateTime": made, "tagTimeRetained": 1.5}
    tag = Tag.from_json(json.dumps(document), name="t", path="/t")
    assert (tag.create_time_ms, tag.time_retained_ms) == (expected, 1500)


@pytest.mark.parametrize("made", [[], [1, 2], [2020, 13, 1], "x", 7, [1] * 8, [2020, 1, 1, "x"]])
def test_a_time_that_is_none_is_damage(made):
    document = snapshot().to_document() | {"tagCreateTime": made}
    with pytest.raises(CorruptError, match="/t/tag/tag-a"):
        Tag.from_json(json.dumps(document), name="a", path="/t/tag/tag-a")


def test_a_name_is_given_once():
    tags = TagLog(MemoryFileIO(), PATHS)
    tags.create("a", snapshot())
    with pytest.raises(AlreadyExistsError, match=r"'/wh/db.db/t' already has a tag 'a'"):
        tags.create("a", snapshot(2))
    assert tags.load("a").snapshot.id == 1
    tags.delete("a")
    tags.create("a", snapshot(2))
    assert tags.names() == ["a"]


@pytest.mark.parametrize("name", ["12", "../x", "", "a/b", "a\0"])
def test_names_that_cannot_be_a_tag_s_are_refused(name):
    fileio = MemoryFileIO()
    with pytest.raises(InvalidInputError):
        TagLog(fileio, PATHS).create(name, snapshot())
    assert fileio.list_dir("/") == []


def test_a_missing_tag_s_message_offers_near_names():
    tags = TagLog(MemoryFileIO(), PATHS)
    with pytest.raises(NotFoundError, match="It has no tags"):
        tags.load("release-1")
    tags.create("release-1", snapshot())
    for action in (tags.load, tags.delete):
        with pytest.raises(NotFoundError, match="Did you mean 'release-1'"):
            action("relaese-1")
