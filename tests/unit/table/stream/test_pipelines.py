"""Drawn pipelines without an engine: the target of a stream is what the source is."""

from __future__ import annotations

import pytest
from proving.kernel_doors import run_kernel_pipeline
from sizes import SIZE


@pytest.mark.parametrize("seed", range(SIZE.pipelines))
def test_the_target_of_a_drawn_stream_is_the_source(seed):
    run_kernel_pipeline(seed)
