"""Snapshot files keep what they say, and what is no snapshot is refused."""

import dataclasses
import json
import pickle
from pathlib import Path

import pytest
from unit.metadata.made import fixture_tables, snapshot

from tidelake.errors import CorruptError, UnsupportedError
from tidelake.metadata import Snapshot, SnapshotLog
from tidelake.metadata.log.json_file import JSON_BYTES_MAX

GOLDEN = Path(__file__).parents[3] / "golden" / "snapshot.json"


def test_a_snapshot_is_written_as_the_golden_file_shows():
    assert snapshot().to_json() + "\n" == GOLDEN.read_text(encoding="utf-8")


def test_all_snapshots_of_java_are_read_and_written_back_equal(oracle_dir):
    count = 0
    for _, fileio, paths in fixture_tables(oracle_dir):
        log = SnapshotLog(fileio, paths)
        for snapshot_id in log.ids():
            data = fileio.read_bytes(paths.snapshot(snapshot_id))
            document = json.loads(data)
            read = Snapshot.from_json(data)
            assert read.id == document["id"]
            assert not read.extra
            again = read.to_document()
            assert _told(again) == _told(document)
            if "writerVersion" not in document:  # 1.3.1: key for key, in its order
                assert list(again) == list(document)
            count += 1
    assert count > 80


def _told(document):
    """Null and absent say the same; so does an empty map of offsets."""
    return {k: v for k, v in document.items() if v is not None and v != {}}


def test_keys_of_a_later_version_are_kept():
    text = json.dumps(snapshot().to_document() | {"later": {"a": [1]}})
    assert json.loads(Snapshot.from_json(text).to_json())["later"] == {"a": [1]}


def test_a_snapshot_travels_by_pickle():
    full = snapshot(properties={"a": "b"}, watermark=5, extra={"later": 1})
    assert pickle.loads(pickle.dumps(full)).to_json() == full.to_json()


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"7",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"version": 3}',
        json.dumps(snapshot().to_document() | {"id": "1"}),
        json.dumps(snapshot().to_document() | {"id": 1.5}),
        json.dumps(snapshot().to_document() | {"id": True}),
        json.dumps(snapshot().to_document() | {"commitKind": "WHATEVER"}),
        json.dumps(snapshot().to_document() | {"deltaManifestList": None}),
        json.dumps(snapshot().to_document() | {"commitUser": 7}),
        json.dumps(snapshot().to_document() | {"properties": [1]}),
        json.dumps(snapshot().to_document() | {"logOffsets": 7}),
        json.dumps(snapshot().to_document() | {"version": "x"}),
        b" " * (JSON_BYTES_MAX + 1),
    ],
)
def test_a_file_that_is_no_snapshot_is_damage_and_named(text):
    with pytest.raises(CorruptError, match="/t/snapshot/snapshot-1"):
        Snapshot.from_json(text, path="/t/snapshot/snapshot-1")


def test_a_later_version_is_refused():
    text = json.dumps(snapshot().to_document() | {"version": 4})
    with pytest.raises(UnsupportedError, match="version 4"):
        Snapshot.from_json(text)


def test_every_cut_of_a_snapshot_file_is_noticed():
    text = snapshot().to_json()
    for length in range(len(text) - 1):
        with pytest.raises(CorruptError):
            Snapshot.from_json(text[:length])


def test_every_field_of_a_snapshot_reaches_the_file():
    full = snapshot(
        changelog_manifest_list="c", changelog_manifest_list_size_bytes=1, index_manifest="i",
        log_offsets={"0": 1}, watermark=2, statistics="s", properties={"p": "q"}, uuid="u",
        writer_version="w", operation="WRITE",
    )  # fmt: skip
    again = Snapshot.from_json(full.to_json())
    for field in dataclasses.fields(Snapshot):
        assert getattr(again, field.name) == getattr(full, field.name)


def test_a_snapshot_is_told_from_another_of_its_id_by_the_list_of_its_delta():
    """A commit that takes the id of a rolled-back one has another identity; a copy has the same."""
    own = snapshot(7)
    assert own.identity == own.delta_manifest_list
    assert Snapshot.from_json(own.to_json()).identity == own.identity
    again = dataclasses.replace(own, delta_manifest_list="manifest-list-0f3a-1")
    assert again.id == own.id
    assert again.identity != own.identity
