"""Files of statistics, in Paimon's form."""

import pytest

from tidelake import CorruptError
from tidelake.metadata.log.statistics import ColumnStatistics, TableStatistics, java_json

FOUND = TableStatistics(
    3,
    0,
    10,
    None,
    {"k": ColumnStatistics(0, 9, "1", 'zwölf"', 0, 8, 8), "v": ColumnStatistics(1)},
)
TEXT = """{
  "snapshotId" : 3,
  "schemaId" : 0,
  "mergedRecordCount" : 10,
  "colStats" : {
    "k" : {
      "colId" : 0,
      "distinctCount" : 9,
      "min" : "1",
      "max" : "zwölf\\"",
      "nullCount" : 0,
      "avgLen" : 8,
      "maxLen" : 8
    },
    "v" : {
      "colId" : 1
    }
  }
}"""


def test_a_file_is_written_as_java_does_and_read():
    assert FOUND.to_json() == TEXT
    assert TableStatistics.from_json(FOUND.to_json(), path="p") == FOUND


def test_keys_of_a_later_version_are_passed_over():
    text = '{"snapshotId": 1, "schemaId": 0, "later": [], "colStats": {"k": {"colId": 0, "x": 1}}}'
    found = TableStatistics.from_json(text, path="p")
    assert dict(found.columns) == {"k": ColumnStatistics(0)}
    assert (found.record_count, found.size_bytes) == (None, None)


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "{}",
        '{"snapshotId": "1", "schemaId": 0}',
        '{"snapshotId": 1, "schemaId": true}',
        '{"snapshotId": 1, "schemaId": 0, "mergedRecordCount": 1.5}',
        '{"snapshotId": 1, "schemaId": 0, "colStats": [1]}',
        '{"snapshotId": 1, "schemaId": 0, "colStats": {"k": 1}}',
        '{"snapshotId": 1, "schemaId": 0, "colStats": {"k": {}}}',
        '{"snapshotId": 1, "schemaId": 0, "colStats": {"k": {"colId": 0, "min": 1}}}',
        '{"snapshotId": 1, "schemaId": 0, "colStats": {"k": {"colId": 0, "avgLen": "1"}}}',
    ],
)
def test_what_is_no_statistics_names_the_file(text):
    with pytest.raises(CorruptError, match="/t/statistics/stat-1"):
        TableStatistics.from_json(text, path="/t/statistics/stat-1")


def test_json_as_java_prints_it():
    assert java_json({}) == "{ }"
    assert java_json({"a": {}, "b": []}) == '{\n  "a" : { },\n  "b" : []\n}'
