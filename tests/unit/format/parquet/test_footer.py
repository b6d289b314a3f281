"""Footers of Parquet files: sealed when written, checked before Arrow sees them."""

import io
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from unit.format.rows import PATH, field, put_parquet

from tidelake.errors import CorruptError
from tidelake.fileio import MemoryFileIO
from tidelake.format import FormatOptions, open_writer, read_batches
from tidelake.format.parquet.footer import check_chunks, read_footer
from tidelake.format.parquet.thrift import inner_struct, inner_structs, read_struct, write_struct
from tidelake.types.arrow import to_arrow_schema
from tidelake.types.predicate import bind, col

FIELDS = (field(0, "a", "BIGINT"), field(1, "s", "STRING"))
TABLE = pa.table({"a": pa.array(range(100)), "s": [f"text {i}" for i in range(100)]})


def sealed():
    files = MemoryFileIO()
    writer = open_writer(files, PATH, FIELDS, FormatOptions(), stats_columns=frozenset())
    writer.write(TABLE.cast(to_arrow_schema(FIELDS)))
    footer = writer.close()
    data = files.read_bytes(PATH)
    assert len(data) == footer.size_bytes
    return data


def opened(data, *, asks_chunks=True):
    return read_footer(pa.BufferReader(data), path=PATH, asks_chunks=asks_chunks).metadata


def parts(data):
    length = int.from_bytes(data[-8:-4], "little")
    return data[: -8 - length], data[-8 - length : -8]


def whole(pages, footer):
    return pages + footer + len(footer).to_bytes(4, "little") + b"PAR1"


def test_a_sealed_file_is_read_by_all():
    data = sealed()
    assert opened(data).num_rows == 100
    metadata = pq.read_metadata(io.BytesIO(data)).metadata
    assert int(metadata[b"tidelake.checksum"][8:], 16) == len(data)
    assert pq.read_table(io.BytesIO(data)).num_rows == 100


@pytest.mark.parametrize("asks_chunks", [True, False])
def test_every_flipped_bit_of_a_footer_is_seen_or_in_the_seal_alone(asks_chunks):
    data = sealed()
    sound = opened(data)
    begin = len(parts(data)[0])
    unseen = 0
    for bit in range(begin * 8, len(data) * 8):
        wrong = bytearray(data)
        wrong[bit // 8] ^= 1 << bit % 8
        try:
            found = opened(bytes(wrong), asks_chunks=asks_chunks)
        except (CorruptError, OSError):  # Arrow's become ours where files are read
            continue
        unseen += 1
        assert (found.num_rows, found.num_columns) == (sound.num_rows, sound.num_columns)
        for column in range(found.num_columns):
            told, true = (m.row_group(0).column(column).to_dict() for m in (found, sound))
            bounds = told.pop("statistics")
            assert bounds == true["statistics"] or not bounds["has_min_max"]  # or are not used
            del true["statistics"]
            assert told == true
    assert unseen <= 8 * (len("tidelake.checksum") + 20 + 8), "the key, its value, their lengths"


def test_the_seal_of_another_file_counts_for_nothing():
    table = pq.read_table(io.BytesIO(sealed())).slice(0, 50)
    sink = io.BytesIO()
    pq.write_table(table, sink)
    assert b"tidelake.checksum" in pq.read_metadata(sink).metadata
    assert opened(sink.getvalue()).num_rows == 50


def forged(change):
    """A file of another writer, its footer changed."""
    files = put_parquet(TABLE, ids=[0, 1])
    pages, footer = parts(files.read_bytes(PATH))
    top = read_struct(footer)
    change(top, inner_structs(inner_structs(top, 4)[0], 1)[0])
    return whole(pages, write_struct(top))


def put(struct, number, value):
    struct[:] = [(n, k, value if n == number else v) for n, k, v in struct]


def short_bound(top, chunk):
    put(inner_struct(inner_struct(chunk, 3), 12), 5, b"\x03abc")


def no_metadata(top, chunk):
    chunk[:] = [f for f in chunk if f[0] != 3]


def no_columns(top, chunk):
    put(inner_structs(top, 4)[0], 1, (12, []))


FORGED = {
    "another type": lambda _, chunk: put(inner_struct(chunk, 3), 1, b"\x0c"),
    "a bound of three bytes": short_bound,
    "no metadata": no_metadata,
    "no columns": no_columns,
    "encrypted": lambda _, chunk: chunk.append((8, 12, [(1, 12, [])])),
}


@pytest.mark.parametrize("name", FORGED)
def test_what_would_end_the_process_is_refused(name):
    with pytest.raises(CorruptError, match=PATH):
        opened(forged(FORGED[name]))


def test_a_read_with_a_filter_survives_a_forged_footer():
    files = MemoryFileIO()
    files.write_once(PATH, forged(FORGED["another type"]))
    predicate = bind(col("a") > 5, FIELDS)
    with pytest.raises(CorruptError, match="another physical type"):
        list(read_batches(files, PATH, FIELDS, predicate=predicate))


def test_arrow_still_ends_the_process_there():
    """When this fails Arrow has learnt to raise, and the check above may go."""
    code = (
        "import sys, pyarrow as pa, pyarrow.parquet as pq\n"
        "data = sys.stdin.buffer.read()\n"
        "pq.read_metadata(pa.BufferReader(data)).row_group(0).column(0).statistics\n"
    )
    data = forged(FORGED["another type"])
    ended = subprocess.run([sys.executable, "-c", code], input=data, capture_output=True)
    assert ended.returncode < 0, ended.stderr


@pytest.mark.parametrize("data", [b"", b"PAR1", b"\x19", b"\x15\x06\x00", b"\xff" * 40])
def test_a_footer_that_is_none_is_refused(data):
    for wrong in (data, whole(b"PAR1", data), whole(b"", data)):
        with pytest.raises((CorruptError, OSError, pa.ArrowException)):
            opened(wrong).row_group(0)
    if data != b"\x15\x06\x00":  # a struct without columns
        with pytest.raises(CorruptError):
            check_chunks(data, path=PATH)


@pytest.mark.parametrize("nested", [False, True])
def test_a_text_of_another_writer_that_is_no_utf8_is_refused(nested):
    """Pages of others need not have checksums."""
    texts = pa.array(["plain", "äöü", None])
    values = pa.array([[text] for text in texts.to_pylist()]) if nested else texts
    kind = {"type": "ARRAY", "element": "STRING"} if nested else "STRING"
    fields = (field(0, "s", kind),)
    made = put_parquet(pa.table({"s": values}), use_dictionary=False, compression="none")
    assert list(read_batches(made, PATH, fields))
    value = b"\x06\x00\x00\x00"  # its length in the page
    data = made.read_bytes(PATH)
    assert data.count(value + "äöü".encode()) == 1
    files = MemoryFileIO()
    files.write_once(PATH, data.replace(value + "äöü".encode(), value + b"\xff" * 6))
    with pytest.raises(CorruptError, match=PATH):
        list(read_batches(files, PATH, fields))
