import pytest

from tidelake.errors import InvalidInputError
from tidelake.types import RowKind


def test_numbers_on_disk():
    assert [int(k) for k in RowKind] == [0, 1, 2, 3]
    assert [str(k) for k in RowKind] == ["+I", "-U", "+U", "-D"]


def test_kinds_are_read_from_their_signs():
    assert [RowKind.parse(str(k)) for k in RowKind] == list(RowKind)
    with pytest.raises(InvalidInputError):
        RowKind.parse("X")
