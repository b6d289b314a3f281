"""Our tables read by the real Paimon: the small part of `make interop`."""

import pytest

from interop import cases, matrix, readers

SPARK_SESSION_ONLY_IF_READY = ("java-2.1",)


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    """The tables; no engine changes them, those that write have copies."""
    warehouse = tmp_path_factory.mktemp("ours")
    return matrix.make_tables(warehouse, cases.small_cases(), lambda _: None)


def check(verdicts):
    wrong = [f"{v.case}, {v.reader}: {v.more}" for v in verdicts if v.word == matrix.DIFFERS]
    assert not wrong, "\n".join(wrong)


@pytest.mark.oracle
@pytest.mark.timeout(1_800)
def test_we_read_our_tables_equal(ours):
    verdicts = matrix.read_by_us(ours)
    assert len(verdicts) > 20
    check(verdicts)


@pytest.mark.oracle
@pytest.mark.timeout(1_800)  # all tables in one process of the reader
@pytest.mark.parametrize("name", list(readers.READERS))
def test_our_tables_read_equal(name, ours):
    (reader,) = matrix.prepared([name], cached_only=SPARK_SESSION_ONLY_IF_READY)
    if isinstance(reader, matrix.Verdict):
        pytest.skip(f"{name}: {reader.more}")
    # on Spark, 2.1 reads all tables; its core those with views and those that it compacts
    of_core = [made for made in ours if made.case.is_viewed or made.case.compacts]
    asked = of_core if name == "core-2.1" else ours
    verdicts = matrix.read_by_other(asked, reader, lambda _: None)
    assert len(verdicts) > 20
    check(verdicts)
