from __future__ import annotations

import pytest

import tidelake
from tidelake import InvalidInputError, NotFoundError
from tidelake.scan import split_from_bytes, split_to_bytes
from tidelake.table.changelog.changelog_plan import moments_between, planned_changes
from tidelake.table.table import Table

MODES = ["diff", "changelog", "delta"]


@pytest.fixture
def table(tmp_path):
    catalog = tidelake.open(tmp_path)
    table = catalog.create_table(
        "db.t",
        {"k": "INT", "v": "INT"},
        primary_keys=["k"],
        options={"bucket": 3, "changelog-producer": "input"},
    )
    table.write([{"k": k, "v": k} for k in range(40)])
    table.write([{"k": k, "v": -k} for k in range(0, 40, 3)])
    table.delete([{"k": 7}])
    table.tags.create("old", snapshot_id=1)
    return table


def lines(batches):
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("mode", MODES)
def test_parts_that_travel_as_bytes_give_the_rows_of_the_whole(table: Table, mode):
    planned = planned_changes(table.handle, 1, None, columns=["v"], where="v < 30", mode=mode)
    whole = lines(planned.reader())
    parts = [tuple(map(split_to_bytes, part)) for part in planned.parts()]
    assert len(parts) > 1
    # each part is read alone, and by another than who planned it
    read = [lines(planned.rows.read(tuple(map(split_from_bytes, part)))) for part in parts[::-1]]
    assert [line for part in read[::-1] for line in part] == whole
    assert whole


def test_files_that_are_in_both_states_are_no_part(table: Table):
    table.write({"k": 1, "v": 100})
    [part] = planned_changes(table.handle, 3, None, columns=None, where=None, mode="diff").parts()
    assert {split.bucket for split in part} == {part[0].bucket}


def test_ends_are_snapshots_or_tags(table: Table):
    handle = table.handle
    assert moments_between(handle, "1,3") == (1, 3)
    assert moments_between(handle, " old , 3 ") == ("old", 3)
    for text in ("", "1", "1,", "1,2,3"):
        with pytest.raises(InvalidInputError, match="it names two snapshots or tags"):
            moments_between(handle, text)


def test_a_tag_that_is_named_by_a_number_comes_before_the_snapshot(table: Table):
    """Java lets tags have such names, and looks for a tag first."""
    files, paths = table.fileio, table.paths
    files.write_once(paths.tag("3"), files.read_bytes(paths.tag("old")))
    start, end = moments_between(table.handle, "3,3")
    assert (start, end) == ("3", "3")
    assert moments_between(table.handle, "2,3") == (2, "3")


@pytest.fixture
def expired(table: Table):
    """Snapshots 1 and 2 have expired as Java leaves them, their changelogs are kept."""
    files, paths = table.fileio, table.paths
    table.tags.delete("old")
    for number in (1, 2):
        files.write_once(paths.changelog(number), files.read_bytes(paths.snapshot(number)))
        files.delete(paths.snapshot(number))
    files.replace(paths.earliest_hint, b"3")
    return table


def test_a_changelog_outlives_its_snapshots(table: Table, request):
    before = {
        (start, end): table.changes(start, end, mode="changelog").to_pylist()
        for start in range(3)
        for end in range(start, 4)
    }
    assert before[0, 3]
    request.getfixturevalue("expired")
    for (start, end), told in before.items():
        assert table.changes(start, end, mode="changelog").to_pylist() == told


def test_a_state_is_gone_with_its_snapshot(expired: Table):
    with pytest.raises(NotFoundError, match=r"no longer has snapshot 1.*Snapshots 3 to 3"):
        expired.changes(1)
    with pytest.raises(NotFoundError, match="no longer has snapshot 2"):
        expired.to_arrow(snapshot_id=2)


@pytest.mark.parametrize("mode", ["diff", "changelog"])
def test_a_time_before_an_expired_snapshot_is_no_beginning(expired: Table, mode):
    with pytest.raises(NotFoundError, match="lies before snapshot 3"):
        expired.changes("2001-01-01", mode=mode)


def test_a_changelog_that_is_gone_too_is_told(expired: Table):
    expired.fileio.delete(expired.paths.changelog(1))
    assert expired.changes(1, 2, mode="changelog").num_rows
    for start in (0, 9):
        with pytest.raises(NotFoundError, match=r"no snapshot|no longer has"):
            expired.changes(start, mode="changelog")
