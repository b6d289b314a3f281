"""The doors of Spark for drawn pipelines (:mod:`proving.pipelines`).

Each door is a query over what is there, with a checkpoint that stays. A batch goes into the target
by our sink or by the user's own ``foreachBatch``, read by the table's name or by its format. Half
of the pipelines read their changes shuffled by key, as large batches are.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from proving.pipelines import Pipeline
from tidelake.spark import Lake
from tidelake.spark.read import changes_frame

__all__ = ["spark_door"]

END_S_MAX = 120
FILES = ("1", "4", None, None)


def spark_door(lake: Lake, work: Path, pipeline: Pipeline) -> Callable[[Pipeline], None]:
    """A drawn door of Spark for one pipeline; `work` gets its checkpoint."""
    rng = pipeline.rng
    pipeline.filter = None  # filters on Spark are drawn in tests/spark/test_stream_filters.py
    door = rng.choice([_by_sink, _by_sink, _by_own_batches, _by_format])
    files, is_shuffled = rng.choice(FILES), rng.random() < 0.5
    if door is not _by_format and files is not None:
        pipeline.stream_options["read.stream.maxFilesPerTrigger"] = files
    pipeline.told.append(f"{door.__name__} {'shuffled' if is_shuffled else ''}")

    def run(_: Pipeline) -> None:
        bytes_max = 1 if is_shuffled else changes_frame.ONE_TASK_BYTES
        with contextlib.ExitStack() as ends:
            ends.enter_context(mock.patch.object(changes_frame, "ONE_TASK_BYTES", bytes_max))
            query = door(lake, pipeline, work / "checkpoint")
            assert query.awaitTermination(END_S_MAX), f"{pipeline.shown}: it goes on"

    return run


def _by_sink(lake: Lake, pipeline: Pipeline, checkpoint: Path) -> StreamingQuery:
    frame = lake.read_stream(pipeline.source_name, options=pipeline.stream_options)
    return lake.write_stream(
        frame, pipeline.target_name, checkpoint=checkpoint, trigger="availableNow"
    )


def _by_own_batches(lake: Lake, pipeline: Pipeline, checkpoint: Path) -> StreamingQuery:
    frame = lake.read_stream(pipeline.source_name, options=pipeline.stream_options)
    return _written(lake, pipeline, frame, checkpoint)


def _by_format(lake: Lake, pipeline: Pipeline, checkpoint: Path) -> StreamingQuery:
    reader = lake.spark.readStream.format("tidelake").options(
        path=pipeline.source.paths.location,
        **{"read.changelog": "true"},
        **pipeline.stream_options,
    )
    return _written(lake, pipeline, reader.load(), checkpoint)


def _written(lake: Lake, pipeline: Pipeline, frame: DataFrame, checkpoint: Path) -> StreamingQuery:
    def write(rows: DataFrame, _: int) -> None:
        lake.write(rows, pipeline.target_name)

    writer = frame.writeStream.foreachBatch(write).trigger(availableNow=True)
    return writer.option("checkpointLocation", str(checkpoint)).start()
