"""Our tables read by the real Paimon: the small part of `make interop`."""

import pytest

from interop import cases, matrix, readers

SPARK_SESSION_ONLY_IF_READY = ("java-2.1",)


@pytest.mark.oracle
@pytest.mark.timeout(1_800)  # all tables in one process of the reader
@pytest.mark.parametrize("name", list(readers.READERS))
def test_our_tables_read_equal(name, tmp_path):
    (reader,) = matrix.prepared([name], cached_only=SPARK_SESSION_ONLY_IF_READY)
    if isinstance(reader, matrix.Verdict):
        pytest.skip(f"{name}: {reader.more}")
    said = []
    verdicts = matrix.read_by_others(tmp_path / "ours", cases.small_cases(), [reader], said.append)
    assert len(verdicts) > 20
    wrong = [f"{v.case}, {v.reader}: {v.more}" for v in verdicts if v.word == matrix.DIFFERS]
    assert not wrong, "\n".join(wrong)
