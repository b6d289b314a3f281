import pickle

import pytest

from tidelake.errors import InvalidInputError
from tidelake.options import (
    Options,
    declared,
    levels_count,
    sorted_runs_stop,
    target_file_size_bytes,
)


def test_unset_options_have_their_defaults():
    options = Options.parse({})
    for option in declared.BY_KEY.values():
        assert options.get(option) == option.default
        assert not options.is_set(option)


def test_unknown_keys_are_kept_untouched():
    raw = {"manifest-sort.enabled": "true", "bucket": "2"}
    assert dict(Options.parse(raw).raw) == raw


def test_a_bad_value_names_table_key_value_and_what_it_must_be():
    with pytest.raises(InvalidInputError) as caught:
        Options.parse({"write-buffer-size": "lots"}, table="db.t")
    assert str(caught.value) == (
        "Table db.t: option 'write-buffer-size' is 'lots' but must be a size such as '128 mb'"
        " (units b, kb, mb, gb, tb; whole numbers)."
    )
    assert caught.value.context["option"] == "write-buffer-size"


def test_older_keys_are_read_where_the_key_is_absent():
    assert Options.parse({"partial-update.ignore-delete": "true"}).get(declared.IGNORE_DELETE)
    both = {"ignore-delete": "false", "partial-update.ignore-delete": "true"}
    assert not Options.parse(both).get(declared.IGNORE_DELETE)


def test_maps_may_be_given_key_by_key():
    options = Options.parse({"file.compression.per.level.0": "lz4"})
    assert options.get(declared.FILE_COMPRESSION_PER_LEVEL) == {"0": "lz4"}


def test_options_travel_by_pickle():
    options = Options.parse({"bucket": "4", "x": "y"}, table="db.t")
    copy = pickle.loads(pickle.dumps(options))
    assert copy == options
    assert hash(copy) == hash(options)
    assert copy.get(declared.BUCKET) == 4


def test_updated_options_leave_the_first_as_they_were():
    first = Options.parse({"bucket": "4"})
    second = first.updated({"bucket": "8", "scan.snapshot-id": "3"})
    assert (first.get(declared.BUCKET), second.get(declared.BUCKET)) == (4, 8)
    assert second.get(declared.SCAN_SNAPSHOT_ID) == 3


def test_derived_values_follow_the_options_they_come_from():
    options = Options.parse({"num-sorted-run.compaction-trigger": "7"})
    assert levels_count(options) == 8
    assert sorted_runs_stop(options) == 10
    assert levels_count(options.updated({"num-levels": "3"})) == 3
    assert sorted_runs_stop(options.updated({"num-sorted-run.stop-trigger": "2"})) == 7
    assert target_file_size_bytes(options, has_primary_key=True) == 128 << 20
    assert target_file_size_bytes(options, has_primary_key=False) == 256 << 20
    small = options.updated({"target-file-size": "1 mb"})
    assert target_file_size_bytes(small, has_primary_key=False) == 1 << 20
