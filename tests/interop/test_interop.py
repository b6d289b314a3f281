"""Our tables read by the real Paimon: the small part of `make interop`."""

import pytest

from interop import cases, matrix, readers

SPARK_SESSION_ONLY_IF_READY = ("java-2.1",)


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    """The tables; no engine changes them, those that write have copies."""
    warehouse = tmp_path_factory.mktemp("ours")
    return matrix.make_tables(warehouse, cases.small_cases(), lambda _: None)


def is_of_core(case):
    """Whether the core of 2.1 reads it; the other tables are left to 2.1 on Spark."""
    of_several_rows = case.combines or case.keys_may_move
    return case.is_viewed or case.compacts or of_several_rows


def check(verdicts):
    wrong = [f"{v.case}, {v.reader}: {v.more}" for v in verdicts if v.word == matrix.DIFFERS]
    assert not wrong, "\n".join(wrong)


def test_every_engine_is_read_with_every_changelog_producer():
    producers = {"none", "input", "lookup", "full-compaction"}
    engines = dict.fromkeys(("deduplicate", "partial-update", "aggregation"), producers)
    engines["first-row"] = {"none", "lookup"}
    wanted = {(engine, name) for engine, names in engines.items() for name in names}
    read = {
        (c.options.get("merge-engine", "deduplicate"), c.options.get("changelog-producer", "none"))
        for c in cases.small_cases()
        if c.primary_keys and is_of_core(c)
    }
    assert read == wanted


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
    asked = [made for made in ours if is_of_core(made.case)] if name == "core-2.1" else ours
    verdicts = matrix.read_by_other(asked, reader, lambda _: None)
    assert len(verdicts) > 20
    check(verdicts)
