"""Which Spark can do what: one table, which the docs show."""

from __future__ import annotations

import importlib.util
import inspect
import json
from pathlib import Path
from unittest.mock import MagicMock

import pytest
from spark import test_every_version

from tidelake.errors import UnsupportedError
from tidelake.spark import versions
from tidelake.spark.expression import by_number
from tidelake.spark.sessions import session
from tidelake.spark.versions import (
    CAPABILITIES,
    FORMAT_STREAMS_READ,
    MINORS,
    SHUFFLES_BY_NUMBER,
    Capability,
    session_has,
)

ROOT = Path(__file__).parents[3]
RECORD = json.loads((ROOT / "tests" / "spark" / "every_version.json").read_text())


@pytest.fixture
def page():
    """The module that makes the table of the docs."""
    path = ROOT / "scripts" / "versions_page.py"
    spec = importlib.util.spec_from_file_location("versions_page", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shown(test):
    """What a test of every version says that it shows."""
    (mark,) = [one for one in test.pytestmark if one.name == "shows"]
    return mark.args[0]


@pytest.mark.parametrize("minor", MINORS)
def test_the_record_of_a_version_is_of_the_tests_that_there_are(minor):
    tests = inspect.getmembers(test_every_version, inspect.isfunction)
    wanted = {}
    for name, test in tests:
        if not name.startswith("test_"):
            continue
        wanted[name] = {"shows": getattr(shown(test), "name", shown(test))}
        if isinstance(shown(test), Capability):
            wanted[name]["has"] = versions.has(shown(test), f"{minor}.0")
    assert RECORD[minor]["tests"] == wanted, "run 'make sparks'"
    assert versions.minor_of(RECORD[minor]["pyspark"]) == minor


def test_each_capability_is_shown_by_a_test():
    named = [test["shows"] for test in RECORD[MINORS[-1]]["tests"].values()]
    assert {one.name for one in CAPABILITIES} <= set(named)
    assert len(named) == len(set(named))
    assert all(one.since in MINORS[1:] for one in CAPABILITIES)


def test_the_table_says_what_was_seen(page):
    later = next(one for one in CAPABILITIES if one.since == MINORS[1])
    row = f"| {later.name} | {later.before} | yes | yes | yes |"
    assert row in page.versions_table(RECORD).splitlines()
    tried = {minor: RECORD[minor] for minor in MINORS[1:]}
    with pytest.raises(AssertionError, match=r"tried were 4\.1, 4\.2, 4\.3"):
        page.versions_table(tried)


def test_what_a_version_has():
    assert [versions.has(FORMAT_STREAMS_READ, f"{m}.7") for m in MINORS] == [
        False,
        False,
        True,
        True,
    ]
    later = Capability("`a thing`", "9.9")
    with pytest.raises(
        UnsupportedError, match=r"^a thing needs Spark 9\.9, and this is .* Do that\.$"
    ):
        versions.check_has(later, "Do that.")


@pytest.mark.parametrize("version", ["3.5.9", "4.4.0", "5.0.0-SNAPSHOT"])
def test_a_version_out_of_range_is_named_with_the_range(version):
    with pytest.raises(UnsupportedError, match=rf"Spark 4\.0 to 4\.3, and this is Spark {version}"):
        versions.check_supported(version)


@pytest.mark.parametrize("version", ["4.0.0", "4.3.1"])
def test_a_version_in_range_is_taken(version):
    versions.check_supported(version)


def test_on_connect_the_server_s_version_counts_too(monkeypatch):
    frame = MagicMock()
    frame.sparkSession.version = "4.0.1"
    monkeypatch.setattr(versions, "has", lambda one, of="4.3.0": of >= one.since)
    monkeypatch.setattr(by_number, "F", MagicMock())
    assert session_has(SHUFFLES_BY_NUMBER, frame.sparkSession)
    by_number.by_number(frame, 2, "a")
    assert [call[0] for call in frame.method_calls] == ["repartitionById"]
    frame.reset_mock()
    monkeypatch.setattr(versions, "is_remote", lambda: True)
    assert not session_has(SHUFFLES_BY_NUMBER, frame.sparkSession)
    by_number.by_number(frame, 2, "a")
    assert [call[0] for call in frame.method_calls] == ["repartition"]


def test_a_server_out_of_range_is_refused(monkeypatch):
    monkeypatch.setattr(session, "is_remote", lambda: True)
    old = MagicMock(version="3.5.4")
    with pytest.raises(UnsupportedError, match=r"4\.0 to 4\.3, and this is Spark 3\.5\.4"):
        session.prepare(old)
    assert not old.conf.set.called
