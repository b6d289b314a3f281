"""Levels written as text, for tests: ``L0[a..k #7 100] L5[a..f #3 900 | g..z #2 800]``."""

from __future__ import annotations

import re

from tidelake.codec.binary_row import serialize_row
from tidelake.metadata.data_file import EMPTY_STATS, DataFileMeta
from tidelake.store.lsm import Levels
from tidelake.types import parse_type

KEY_TYPES = (parse_type("STRING NOT NULL"),)
RUN = re.compile(r"L(\d+)\[([^\]]*)\]")
FILE = re.compile(r"\s*(\w+)\.\.(\w+) #(\d+)(?: (\d+))?( deletes)?\s*")


def data_file(
    low: str, high: str, *, number: int, size: int = 100, level: int = 0, deletes: int | None = 0
) -> DataFileMeta:
    return DataFileMeta(
        file_name=f"data-{number}.parquet",
        file_size_bytes=size,
        row_count=10,
        min_key=serialize_row([low], KEY_TYPES),
        max_key=serialize_row([high], KEY_TYPES),
        key_stats=EMPTY_STATS,
        value_stats=EMPTY_STATS,
        min_sequence_number=number,
        max_sequence_number=number,
        schema_id=0,
        level=level,
        creation_time_ms=number,
        delete_row_count=deletes,
        file_source=0,
    )


def parse_levels(text: str, *, count: int = 6) -> Levels:
    files = []
    for level, content in RUN.findall(text):
        for part in content.split("|"):
            low, high, number, size, deletes = FILE.fullmatch(part).groups()
            files.append(
                data_file(
                    low,
                    high,
                    number=int(number),
                    size=int(size or 100),
                    level=int(level),
                    deletes=1 if deletes else 0,
                )
            )
    return Levels.of(reversed(files), count=count)
