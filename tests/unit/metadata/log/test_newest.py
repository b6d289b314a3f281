"""Reading the newest snapshot while it expires."""

from types import SimpleNamespace

import pytest

from tidelake.errors import NotFoundError
from tidelake.metadata.log.newest import has_moved_on, read_newest

FIRST, SECOND = SimpleNamespace(id=1), SimpleNamespace(id=2)


def reading(missing):
    seen = []

    def read(snapshot):
        seen.append(snapshot)
        if snapshot in missing:
            raise NotFoundError("gone", kind="file_not_found")
        return seen

    return read


def test_a_snapshot_that_expired_is_read_as_the_next_one():
    newest = iter([FIRST, SECOND])
    assert read_newest(lambda: next(newest), reading([FIRST])) == [FIRST, SECOND]


def test_a_file_that_the_newest_snapshot_names_is_missing():
    with pytest.raises(NotFoundError, match="gone"):
        read_newest(lambda: FIRST, reading([FIRST]))


@pytest.mark.parametrize(
    ("base", "newest", "moved_on"),
    [
        (None, None, False),
        (None, FIRST, True),
        (FIRST, FIRST, False),
        (FIRST, SECOND, True),
        (FIRST, None, False),  # the table was dropped
    ],
)
def test_a_base_has_moved_on_by_another_newest_snapshot(base, newest, moved_on):
    assert has_moved_on(base, newest) is moved_on
