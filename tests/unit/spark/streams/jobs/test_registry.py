"""Jobs are found by id, by name, and a database sync by the name that was given to it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tidelake.engine.env import Env
from tidelake.errors import NotFoundError
from tidelake.spark.streams.jobs.registry import JobRegistry


def registry(*names):
    queries = [
        SimpleNamespace(id=f"id-{number}", runId=f"run-{number}", name=name, isActive=True)
        for number, name in enumerate(names)
    ]
    spark = SimpleNamespace(streams=SimpleNamespace(active=queries))
    return JobRegistry(spark, Env.seeded(1).clock)


def test_a_sync_is_found_by_the_name_that_was_given_to_it():
    jobs = registry("cdc-ods", "cdc-shop", "other")
    assert jobs.job("shop").name == "cdc-shop"
    assert jobs.job("cdc-shop").name == "cdc-shop"
    assert jobs.job("id-0").name == "cdc-ods"
    with pytest.raises(NotFoundError, match="no job 'shopp'"):
        jobs.job("shopp")


def test_a_job_of_that_very_name_comes_first():
    assert registry("cdc-shop", "shop").job("shop").name == "shop"
    assert registry("shop", "cdc-shop").job("shop").name == "shop"
