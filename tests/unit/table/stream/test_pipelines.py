"""Drawn pipelines without an engine: the target of a stream is what the source is."""

from __future__ import annotations

import pytest
from proving.pipelines import Pipeline, kernel_door
from sizes import SIZE

import tidelake
from tidelake.fileio import MemoryFileIO
from tidelake.telemetry import Env


@pytest.mark.parametrize("seed", range(SIZE.pipelines))
def test_the_target_of_a_drawn_stream_is_the_source(seed):
    catalog = tidelake.open("/w", fileio=MemoryFileIO(), env=Env.seeded(seed))
    pipeline = Pipeline(seed, catalog, "d")
    pipeline.run(kernel_door(pipeline))
