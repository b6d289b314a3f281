"""Drawn pipelines: the target of a stream is what the source is, on Spark and without."""

from __future__ import annotations

import pytest
from proving.pipelines import Pipeline
from proving.spark_pipelines import spark_door
from sizes import SIZE


@pytest.mark.parametrize("seed", range(SIZE.spark_pipelines))
def test_the_target_of_a_drawn_stream_on_spark_is_the_source(lake, tmp_path, seed):
    pipeline = Pipeline(seed, lake.catalog, "d")
    pipeline.run(spark_door(lake, tmp_path, pipeline), runs=SIZE.spark_pipeline_runs)
