"""Which Spark can do what: one table, which the docs show."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import MagicMock

import pytest

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

PAGE = Path(__file__).parents[3] / "docs" / "compatibility.md"


@pytest.mark.parametrize("capability", CAPABILITIES, ids=lambda one: one.name)
def test_the_page_has_each_capability(capability):
    row = f"| {capability.name} | {capability.since} | {capability.before} |"
    assert row in PAGE.read_text().splitlines()
    assert capability.since in MINORS[1:]


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
