"""The bytes of manifests and manifest lists, compared with the annotated golden files.

A golden file has the schema as the header holds it (a line that begins with a brace), then the
blocks in hex; what follows a # is a remark. The sync marker depends on the file's name alone.
"""

import json
from pathlib import Path

import fastavro
import pytest
from unit.metadata.made import PARTITIONED, added, deleted, partition, write_manifest

from tidelake.fileio import MemoryFileIO
from tidelake.metadata.manifest.manifest_list import write_manifest_list
from tidelake.metadata.manifest.manifest_schema import ENTRY_SCHEMA, LIST_SCHEMA

GOLDEN = Path(__file__).parents[2] / "golden"
ENTRIES = [
    added("data-a-0.parquet", place=(partition("mon"), 1), total_buckets=2, keys=(1, 9)),
    deleted("data-b-0.parquet", place=(partition(None), 0), total_buckets=2, level=5,
            keys=(2, 2), rows=1, sequences=(3, 3), creation_time_ms=None,
            value_stats_cols=("v",), file_source=1, extra_files=("i",)),
]  # fmt: skip


def files_of(codec="null"):
    fileio = MemoryFileIO()
    manifest = write_manifest(
        fileio, PARTITIONED, "manifest-golden-0", ENTRIES, schema_id=0, codec=codec
    )
    write_manifest_list(fileio, PARTITIONED, "manifest-list-golden-0", [manifest], codec=codec)
    return {
        "manifest": fileio.read_bytes(PARTITIONED.manifest("manifest-golden-0")),
        "manifest_list": fileio.read_bytes(PARTITIONED.manifest("manifest-list-golden-0")),
    }


@pytest.mark.parametrize(
    ("golden", "schema"), [("manifest.txt", ENTRY_SCHEMA), ("manifest_list.txt", LIST_SCHEMA)]
)
def test_a_file_has_the_bytes_of_the_golden_one(golden, schema):
    data = files_of()[golden.removesuffix(".txt")]
    lines = (GOLDEN / golden).read_text(encoding="utf-8").splitlines()
    (schema_line,) = (line for line in lines if line.startswith("{"))
    assert json.loads(schema_line) == schema
    assert schema_line.encode() in data
    blocks = "".join(line.partition("#")[0] for line in lines if not line.startswith(("{", "#")))
    sync = data[-16:]
    assert data[data.index(sync) + 16 :] == bytes.fromhex(blocks)


def test_the_schema_s_names_and_order_do_not_change_when_it_is_parsed():
    for schema in (ENTRY_SCHEMA, LIST_SCHEMA):
        parsed = fastavro.parse_schema(json.loads(json.dumps(schema)))
        assert [f["name"] for f in parsed["fields"]] == [f["name"] for f in schema["fields"]]
