"""Parts of one length go out in order; what failed once is not made whole."""

from __future__ import annotations

import os

import pytest

from tidelake.errors import ClosedError, TidelakeError
from tidelake.fileio.files import PartedOutput


class Parts(PartedOutput):
    """Keeps what it was told; fails on order."""

    def __init__(self, fails_at=None):
        super().__init__("/a", 4)
        self.told = []
        self.fails_at = fails_at

    def _tell(self, *what):
        self.told.append(what)
        if len(self.told) == self.fails_at:
            raise OSError("cut")

    def _send(self, part):
        self._tell("part", part)

    def _finish(self, rest):
        self._tell("rest", rest)

    def _discard(self, *, is_here):
        self._tell("discard", is_here)


@pytest.mark.parametrize(
    ("pieces", "parts", "rest"),
    [
        ([], [], b""),
        ([b"abcd"], [], b"abcd"),
        ([b"abc", b"de"], [b"abcd"], b"e"),
        ([b"a", b"bcdefghijk"], [b"abcd", b"efgh"], b"ijk"),
        ([memoryview(b"abcdefgh")], [b"abcd"], b"efgh"),
    ],
    ids=["empty", "one part", "a rest", "long", "a view"],
)
def test_bytes_go_out_in_parts_of_one_length(pieces, parts, rest):
    file = Parts()
    assert [file.write(piece) for piece in pieces] == [len(piece) for piece in pieces]
    assert file.tell() == sum(map(len, pieces))
    file.close()
    file.close()
    file.abort()
    assert file.told == [*(("part", part) for part in parts), ("rest", rest)]
    with pytest.raises(ClosedError):
        file.write(b"x")


@pytest.mark.parametrize("fails_at", [1, 2])
def test_a_file_of_which_a_part_failed_can_only_be_given_up(fails_at):
    """Else a writer that goes on, or an exit that closes, would make a file with a hole."""
    file = Parts(fails_at)
    with pytest.raises(OSError, match="cut"):  # noqa: PT012
        file.write(b"abcde")
        file.close()
    told = list(file.told)
    for again in (file.close, lambda: file.write(b"f" * 9)):
        with pytest.raises(OSError, match="cut"):
            again()
    assert file.told == told
    file.abort()
    file.abort()
    assert file.told[len(told) :] == [("discard", True)]
    assert file.closed


def test_a_forked_child_leaves_its_parent_s_file_alone():
    file = Parts()
    file.write(b"ab")
    child = os.fork()
    if child == 0:
        try:
            file.close()
        except TidelakeError:
            file.abort()
            os._exit(0 if file.told == [("discard", False)] else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    file.close()
    assert file.told == [("rest", b"ab")]
