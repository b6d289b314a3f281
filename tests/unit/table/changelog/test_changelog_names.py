"""On disk: what a snapshot names of its changelog, and how its files are called."""

from __future__ import annotations

import io
import re
from pathlib import Path

import fastavro

import tidelake
from tidelake.fileio import MemoryFileIO
from tidelake.telemetry import Env

GOLDEN = Path(__file__).parents[3] / "golden" / "changelog_names.txt"


def records(fileio, name):
    return list(fastavro.reader(io.BytesIO(fileio.read_bytes(f"/w/db.db/t/manifest/{name}"))))


def described(fileio, table):
    """Snapshots, their lists, manifests and files; each uuid by the order of its coming."""
    lines = []
    for snapshot_id in range(1, table.latest_snapshot_id + 1):
        snapshot = table.handle.snapshots.load(snapshot_id)
        lines.append(f"snapshot-{snapshot_id} {snapshot.commit_kind}")
        lists = {
            "delta": snapshot.delta_manifest_list,
            "changelog": snapshot.changelog_manifest_list,
        }
        for what, list_name in lists.items():
            lines.append(f"  {what}: {list_name}")
            for manifest in () if list_name is None else records(fileio, list_name):
                lines.append(f"    {manifest['_FILE_NAME']}")
                for entry in records(fileio, manifest["_FILE_NAME"]):
                    file = entry["_FILE"]
                    lines.append(
                        f"      {'ADD' if entry['_KIND'] == 0 else 'DELETE'} {file['_FILE_NAME']}"
                        f" level {file['_LEVEL']} source {file['_FILE_SOURCE']}"
                        f" rows {file['_ROW_COUNT']} deletes {file['_DELETE_ROW_COUNT']}"
                        f" numbers {file['_MIN_SEQUENCE_NUMBER']}..{file['_MAX_SEQUENCE_NUMBER']}"
                    )
        lines.append(f"  changelogRecordCount: {snapshot.changelog_record_count}")
    known: dict[str, str] = {}
    uuid = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
    return [
        uuid.sub(lambda m: known.setdefault(m[0], f"<uuid {len(known) + 1}>"), line)
        for line in lines
    ]


def test_changelogs_are_named_as_the_golden_file_says():
    lines = []
    for producer in ("input", "full-compaction"):
        fileio = MemoryFileIO()
        catalog = tidelake.open("/w", fileio=fileio, env=Env.seeded(1))
        table = catalog.create_table(
            "db.t",
            {"k": "INT", "v": "INT"},
            primary_keys=["k"],
            options={
                "bucket": "1",
                "changelog-producer": producer,
                "full-compaction.delta-commits": "2",
            },
        )
        table.write([{"k": 1, "v": 1}, {"k": 2, "v": 2}])
        table.write([{"k": 2, "v": 2}, {"k": 2, "v": 3}], row_kinds=["-U", "+U"])
        table.write([{"k": 1, "v": 1}], row_kinds=["-D"])
        lines += [f"changelog-producer = {producer}", *described(fileio, table), ""]
    assert lines[:-1] == GOLDEN.read_text(encoding="utf-8").splitlines()
