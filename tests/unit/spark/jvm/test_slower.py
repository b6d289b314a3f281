from __future__ import annotations

import warnings

import pytest

from tidelake.spark.jvm import slower


@pytest.fixture
def said(monkeypatch):
    monkeypatch.setattr(slower, "_SAID", set())


def test_what_is_slower_is_said_once_for_a_version_of_spark(said):
    with pytest.warns(RuntimeWarning, match=r"^Joins are shuffled, because Spark 9\.9 .*: gone$"):
        slower.warn_slower("Joins are shuffled", "9.9", "gone")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        slower.warn_slower("Joins are shuffled", "9.9", "gone too")
    with pytest.warns(RuntimeWarning, match="Scans are slow"):
        slower.warn_slower("Scans are slow", "9.9", "gone")
    with pytest.warns(RuntimeWarning, match="Spark 9.8"):
        slower.warn_slower("Joins are shuffled", "9.8", "gone")
