"""The demo's third act, small: flights and airports by key, while the executor is killed."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import tidelake.spark

FLIGHTS = Path(__file__).parents[2] / "examples" / "flights"
MODULES = ("answers", "check", "data", "feed", "life", "published", "service", "streams")


@pytest.fixture(scope="module")
def demo():
    """The demo's modules, gone again afterwards: their names are anybody's."""
    sys.path.insert(0, str(FLIGHTS))
    try:
        yield SimpleNamespace(**{name: importlib.import_module(name) for name in MODULES})
    finally:
        sys.path.remove(str(FLIGHTS))
        for name in MODULES:
            sys.modules.pop(name, None)


def test_the_third_act_compares_and_survives(spark, demo, tmp_path, monkeypatch):
    flights = demo.published.flights
    some = flights[(flights["month"] <= 2) & (flights["day"] == 9)]
    monkeypatch.setattr(demo.published, "flights", some)
    raw = demo.data.load()
    lake = tidelake.spark.attach(spark, tmp_path / "warehouse")
    demo.feed.create_tables(lake)
    lake.catalog.table(demo.feed.FLIGHTS).write(demo.data.scheduled(raw))
    steps = []
    checks = dict(demo.service.third_act(lake, raw, lambda: steps.append(1)))
    assert len(steps) == 4, "the progress that demo.py shows has four steps"
    assert checks["flights, looked up in the airports"] == f"{len(some):,} rows as by a join"
    assert f"{len(some):,} keys" in checks["gets of the query service, beside SQL"]
    assert "the new row was seen" in checks["an executor was killed, clients went on"]
