"""Drawn pipelines: the target of a stream is what the source is, on Spark and without."""

from __future__ import annotations

import json

import pytest
from proving.pipelines import SOURCES
from proving.spark_pipelines import DRAWS, LEAVING_DRAWS, MESSAGE_DRAWS, TOPIC, SparkPipeline
from sizes import SIZE


@pytest.mark.parametrize("seed", range(SIZE.spark_pipelines))
def test_the_target_of_a_drawn_stream_on_spark_is_the_source(lake, tmp_path, seed):
    SparkPipeline(lake, tmp_path / "work", seed, DRAWS[seed]).run(SIZE.spark_pipeline_runs)


@pytest.mark.parametrize("seed", range(SIZE.leaving_pipelines))
def test_updates_that_leave_a_drawn_filter_leave_a_target_of_deletes(lake, tmp_path, seed):
    SparkPipeline(lake, tmp_path / "work", seed, LEAVING_DRAWS[seed]).run(SIZE.spark_pipeline_runs)


@pytest.mark.parametrize("seed", range(SIZE.message_pipelines))
def test_the_messages_of_a_drawn_stream_are_the_source(lake, topics, tmp_path, seed):
    topic, draw = topics.make(partitions=2), MESSAGE_DRAWS[seed]
    keys = "k" if SOURCES[draw["kind"]].keys == ("k",) else "p, k"
    options = {
        "connector": "upsert-kafka",
        "topic": topic,
        "properties.bootstrap.servers": topics.servers,
        "key.format": "json",
        "format": "json",
    }
    texts = ", ".join(f"'{name}' = '{value}'" for name, value in options.items())
    lake.sql(
        f"CREATE TEMPORARY TABLE {TOPIC} (p STRING, k INT, v INT, n BIGINT,"
        f" PRIMARY KEY ({keys}) NOT ENFORCED) WITH ({texts})"
    )

    def held():
        latest = {message.key(): message.value() for message in topics.read(topic)}
        rows = [json.loads(value) for value in latest.values() if value is not None]
        return {tuple(row[name] for name in keys.split(", ")): row for row in rows}

    SparkPipeline(lake, tmp_path / "work", seed, draw, held).run(SIZE.spark_pipeline_runs)
