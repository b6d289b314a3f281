"""Our tables read by the real Paimon: the small part of `make interop`.

Java 2.1 reads as its core, a bare program; its session on Spark reads by the same core, and costs
ten times as much for a question. So it is asked at full size only. In small half of the tables
are made and dealt out: each is read by one of Java's two versions, half of them by pypaimon, and
each reader meets every engine.
"""

import pytest
from sizes import FULL, SIZE

from interop import cases, matrix, readers

ASKED = [name for name in readers.READERS if name != "java-2.1" or SIZE is FULL]
TURNS = {"java-1.3": (0, 4), "core-2.1": (3, 4), "pypaimon": (0, 4)}
"""In small a reader gets the tables from a place on, and every so manieth."""


def dealt(name):
    """The cases that one reader is asked for."""
    first, step = (0, 1) if SIZE is FULL else TURNS[name]
    return cases.small_cases()[first::step]


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    """The tables; no engine changes them, those that write have copies."""
    warehouse = tmp_path_factory.mktemp("ours")
    asked = {case.name for name in ASKED for case in dealt(name)}
    wanted = [case for case in cases.small_cases() if case.name in asked]
    return matrix.make_tables(warehouse, wanted, lambda _: None)


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
        if c.primary_keys
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
@pytest.mark.parametrize("name", ASKED)
def test_our_tables_read_equal(name, ours):
    (reader,) = matrix.prepared([name])
    if isinstance(reader, matrix.Verdict):
        pytest.skip(f"{name}: {reader.more}")
    asked = {case.name for case in dealt(name)}
    own = [made for made in ours if made.case.name in asked]
    verdicts = matrix.read_by_other(own, reader, lambda _: None)
    assert len(verdicts) > 20
    check(verdicts)


@pytest.mark.parametrize("name", TURNS)
def test_each_reader_meets_every_engine(name):
    found = {case.options.get("merge-engine") for case in dealt(name)}
    assert found >= {None, "partial-update", "aggregation", "first-row"}
