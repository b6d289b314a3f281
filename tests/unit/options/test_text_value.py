"""Texts to values. The tables hold what Java 1.3.1's parsers returned for the same texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelake.options import declared
from tidelake.options.text_value import parse_value, to_text

JAVA_DURATIONS = {
    "1 h": 3_600_000,
    "5": 5,
    "30min": 1_800_000,
    " 2 days": 172_800_000,
    "7 D": 604_800_000,
    "9 Hours": 32_400_000,
    "1ns": 0,
}
JAVA_SIZES = {
    "128 mb": 134_217_728,
    "64kb": 65_536,
    "1": 1,
    "2 TB": 2_199_023_255_552,
    "3 mebibytes": 3_145_728,
    "1 k": 1024,
    "10 b": 10,
    "5 bytes": 5,
    "4 gibibytes": 4_294_967_296,
    "1 t": 1_099_511_627_776,
}


@pytest.mark.parametrize(("text", "expected_ms"), JAVA_DURATIONS.items())
def test_durations_are_read_as_java_reads_them(text, expected_ms):
    assert parse_value(declared.COMMIT_TIMEOUT, text) == expected_ms


@pytest.mark.parametrize("text", ["PT1H", "1.5 h", "3 wk", "-1 ms", "", "h", "1 h 30 min"])
def test_durations_that_java_refuses_are_refused(text):
    with pytest.raises(ValueError, match="a duration such as '1 h'"):
        parse_value(declared.COMMIT_TIMEOUT, text)


@pytest.mark.parametrize(("text", "expected_bytes"), JAVA_SIZES.items())
def test_sizes_are_read_as_java_reads_them(text, expected_bytes):
    assert parse_value(declared.LOOKUP_CACHE_MAX_DISK_SIZE, text) == expected_bytes


@pytest.mark.parametrize("text", ["1.5 gb", "7 Megabytes", "9 kilobytes", "", "x", "-1 mb"])
def test_sizes_that_java_refuses_are_refused(text):
    with pytest.raises(ValueError, match="a size such as '128 mb'"):
        parse_value(declared.LOOKUP_CACHE_MAX_DISK_SIZE, text)


def test_a_size_beyond_64_bits_is_refused():
    with pytest.raises(ValueError, match="64 bits"):
        parse_value(declared.LOOKUP_CACHE_MAX_DISK_SIZE, "9999999 tb")


@pytest.mark.parametrize(("text", "expected"), [("true", True), ("TRUE", True), ("False", False)])
def test_booleans_ignore_case(text, expected):
    assert parse_value(declared.WRITE_ONLY, text) is expected


@pytest.mark.parametrize("text", ["yes", "1", " true", ""])
def test_other_booleans_are_refused(text):
    with pytest.raises(ValueError, match="true or false"):
        parse_value(declared.WRITE_ONLY, text)


@pytest.mark.parametrize(("text", "expected"), [("4", 4), ("+4", 4), ("-1", -1)])
def test_integers_take_a_sign(text, expected):
    assert parse_value(declared.BUCKET, text) == expected


@pytest.mark.parametrize("text", [" 4", "4.0", "four", "99999999999", "-3"])
def test_other_integers_are_refused(text):
    with pytest.raises(ValueError, match=r"whole number|between"):
        parse_value(declared.BUCKET, text)


def test_enums_ignore_case_and_come_back_in_java_s_spelling():
    assert parse_value(declared.MERGE_ENGINE, "Partial-Update") == "partial-update"
    with pytest.raises(ValueError, match="one of deduplicate, partial-update"):
        parse_value(declared.MERGE_ENGINE, "partial_update")


def test_maps_are_pairs_with_colons():
    option = declared.FILE_COMPRESSION_PER_LEVEL
    assert parse_value(option, "0:lz4, 1 : zstd") == {"0": "lz4", "1": "zstd"}
    with pytest.raises(ValueError, match="pairs such as"):
        parse_value(option, "0")


@pytest.mark.parametrize("text", ["truncate(16)", "none", "FULL", "counts", "truncate(4)"])
def test_statistics_modes_are_known(text):
    assert parse_value(declared.METADATA_STATS_MODE, text) == text


@pytest.mark.parametrize("text", ["truncate", "truncate(0)", "all"])
def test_other_statistics_modes_are_refused(text):
    with pytest.raises(ValueError, match="of the form"):
        parse_value(declared.METADATA_STATS_MODE, text)


@given(st.integers(0, 2**63 - 1))
def test_a_size_survives_its_text(size_bytes):
    option = declared.LOOKUP_CACHE_MAX_DISK_SIZE
    assert parse_value(option, to_text(option, size_bytes)) == size_bytes


@given(st.integers(0, 10**15))
def test_a_duration_survives_its_text(span_ms):
    option = declared.COMMIT_TIMEOUT
    assert parse_value(option, to_text(option, span_ms)) == span_ms
