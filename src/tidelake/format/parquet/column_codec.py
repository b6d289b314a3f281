"""Chooses the columns of a file that are worth compressing.

Measurements, random identifiers and hashes hardly shrink, and compressing them costs a tenth of a
write and of a read. Parquet has a codec per column, so a column whose sample shrinks by less than a
tenth is stored uncompressed. All of Paimon's readers accept such files.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

SAMPLE_BYTES = 32 << 10
SAMPLE_MIN = SAMPLE_BYTES // 2
"""Fewer bytes do not tell; small files are not sampled at all."""
WORTH_RATIO = 0.9


def column_codecs(table: pa.Table, candidates: Sequence[str], codec: str) -> dict[str, str]:
    """Choose the codec of each column of a file by a sample of its first rows.

    Parameters
    ----------
    table : pyarrow.Table
        The file's first rows.
    candidates : sequence of str
        Columns that are written plainly, neither with a dictionary nor as differences; all others
        keep the codec.
    codec : str
        Arrow's name of the file's codec, or ``none``.

    Returns
    -------
    dict of str to str
        The codec of every column.

    Examples
    --------
    >>> import numpy as np
    >>> noise = np.random.default_rng(0).random(5000)
    >>> table = pa.table({"measured": noise, "counted": np.arange(5000) // 9})
    >>> column_codecs(table, ["measured", "counted"], "zstd")
    {'measured': 'none', 'counted': 'zstd'}
    """
    chosen = dict.fromkeys(table.column_names, codec)
    if codec == "none" or table.nbytes < SAMPLE_MIN:
        return chosen
    compressor = pa.Codec(codec if codec != "lz4" else "lz4_raw")
    for name in candidates:
        sample = _values_sample(table.column(name))
        if sample is not None:
            shrunk = compressor.compress(sample)
            if shrunk.size > WORTH_RATIO * sample.size:
                chosen[name] = "none"
    return chosen


def _values_sample(column: pa.ChunkedArray) -> pa.Buffer | None:
    """Memory of some values from the middle of a column; None if there are too few to judge."""
    array = max(column.chunks, key=len, default=None)
    if array is None or array.null_count or len(array) == 0:
        return None
    row_bytes = max(1, array.nbytes // len(array))
    rows = min(len(array), SAMPLE_BYTES // row_bytes)
    sample = array.slice((len(array) - rows) // 2, rows)
    memory = sample.buffers()
    if pa.types.is_string(array.type) or pa.types.is_binary(array.type):
        offsets = pa.Array.from_buffers(
            pa.int32(), rows + 1, [None, memory[1]], offset=sample.offset
        )
        begin, end = offsets[0].as_py(), offsets[-1].as_py()
        values = memory[2].slice(begin, end - begin) if end > begin else None
    elif (
        pa.types.is_integer(array.type)
        or pa.types.is_floating(array.type)
        or pa.types.is_temporal(array.type)
    ):
        width = array.type.bit_width // 8
        values = memory[1].slice(sample.offset * width, rows * width)
    else:
        return None  # Parquet stores these in another form than Arrow
    return values if values is not None and values.size >= SAMPLE_MIN else None
