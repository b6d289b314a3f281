"""A checkpoint belongs to one query, and says so."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from proving.odd_names import odd_name

from tidelake.errors import CorruptError, InvalidInputError, StorageError, UnsupportedError
from tidelake.spark.streams.write.checkpoint import MARK_FILE, Checkpoint, SinkMark, check_mark

MARK = SinkMark("db.t", 1_700_000_000_000, "append", 0, ("FileSource[/in]",))


@pytest.fixture
def checkpoint(tmp_path):
    return Checkpoint.of(tmp_path / "checkpoint", table="db.t")


def begin(checkpoint, batches=1, done=1, watermark=0):
    """What Spark leaves in the folder."""
    for name, count in (("offsets", batches), ("commits", done)):
        (checkpoint.folder.path / name).mkdir(parents=True, exist_ok=True)
        for number in range(count):
            state = json.dumps({"batchWatermarkMs": watermark})
            (checkpoint.folder.path / name / str(number)).write_text(f"v1\n{state}\n0")
    (checkpoint.folder.path / "metadata").write_text('{"id":"11-22"}')


@pytest.mark.parametrize("given", [None, "", "  "])
def test_there_is_no_default(given):
    with pytest.raises(InvalidInputError, match=r"'db\.t' needs checkpoint=") as refused:
        Checkpoint.of(given, table="db.t")
    assert refused.value.kind == "no_checkpoint"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("hdfs://a/b", r"hdfs://a/b .*Connect and format\('tidelake'\) do not reach"),
        ("s3:/bucket/b", "is no URI: write it as scheme://bucket/folder"),
        ("s3://key:secret@bucket/b", "credentials do not belong into a URI"),
    ],
)
def test_a_store_that_is_not_reached_from_here_is_refused(given, said):
    with pytest.raises((UnsupportedError, InvalidInputError), match=said) as refused:
        Checkpoint.of(given, table="db.t")
    assert refused.value.kind == "checkpoint_storage"
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("seed", range(20))
def test_a_path_and_its_uri_are_one_folder(tmp_path, seed):
    """A URI holds the path as it stands, which is how Hadoop reads the one that Spark gets."""
    path = tmp_path / odd_name(seed)
    of_path = Checkpoint.of(path, table="db.t")
    assert of_path == Checkpoint.of(str(path), table="db.t")
    assert of_path.uri == f"file://{path}"
    for spelled in (of_path.uri, f"file:{path}", f"FILE://host{path}"):
        assert Checkpoint.of(spelled, table="db.t").folder.shown == str(path)


def test_what_spark_wrote_is_read(checkpoint):
    assert checkpoint.query_id() is None
    assert not checkpoint.has_batches
    begin(checkpoint, batches=2, done=1, watermark=17)
    assert checkpoint.query_id() == "11-22"
    assert checkpoint.has_batches
    assert [checkpoint.is_done(n) for n in range(3)] == [True, False, False]
    assert [checkpoint.watermark_before(n) for n in range(3)] == [17, 17, None]


def test_no_watermark_is_none(checkpoint):
    begin(checkpoint, watermark=0)
    assert checkpoint.watermark_before(0) is None


def test_a_mark_is_kept(checkpoint):
    assert check_mark(checkpoint, MARK, in_batch=True) == MARK
    begin(checkpoint, done=0)
    assert check_mark(checkpoint, MARK, in_batch=True) == MARK
    altered = replace(MARK, schema_id=4)
    assert check_mark(checkpoint, altered) == MARK
    assert [p.name for p in checkpoint.folder.path.glob("*sink*")] == [MARK_FILE]


def test_before_a_batch_began_a_checkpoint_may_become_another_s(checkpoint):
    check_mark(checkpoint, MARK)
    other = replace(MARK, table="db.u")
    assert check_mark(checkpoint, other) == other


def test_a_second_start_takes_nothing_from_a_query_whose_first_batch_has_not_begun(checkpoint):
    check_mark(checkpoint, MARK)
    other = replace(MARK, table="db.u")
    check_mark(checkpoint, other)  # it is refused by Spark later
    begin(checkpoint, batches=1, done=0)
    assert check_mark(checkpoint, MARK, in_batch=True) == MARK
    with pytest.raises(InvalidInputError, match="into table 'db"):
        check_mark(checkpoint, other)


def test_of_two_in_their_first_batch_one_goes_on(checkpoint, monkeypatch):
    other = replace(MARK, table="db.u")
    begin(checkpoint, batches=1, done=0)
    looks = [None]

    def mark(self, look=Checkpoint.mark):
        if not looks:
            return look(self)
        self.put_mark(other)  # right behind the look
        return looks.pop()

    monkeypatch.setattr(Checkpoint, "mark", mark)
    with pytest.raises(InvalidInputError, match=r"into table 'db\.u'"):
        check_mark(checkpoint, MARK, in_batch=True)
    assert [path.name for path in checkpoint.folder.path.glob(".tidelake*")] == []


def test_a_run_that_died_in_its_first_batch_may_begin_again(checkpoint):
    begin(checkpoint, batches=1, done=0)
    assert check_mark(checkpoint, MARK) == MARK
    assert checkpoint.mark() is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"table": "db.u"}, r"into table 'db\.t', not 'db\.u'"),
        ({"created_ms": 5}, "dropped and has been created again"),
        ({"mode": "complete"}, "mode 'append', not 'complete'"),
        ({"sources": ("rate",)}, r"reads FileSource\[/in\], not rate"),
    ],
)
def test_the_checkpoint_of_another_query_is_refused(checkpoint, change, words):
    checkpoint.put_mark(MARK)
    begin(checkpoint)
    with pytest.raises(InvalidInputError, match=words) as refused:
        check_mark(checkpoint, replace(MARK, **change))
    assert refused.value.kind == "checkpoint_of_another"
    assert checkpoint.mark() == MARK


def test_a_query_that_no_sink_marked_is_another(checkpoint):
    begin(checkpoint)
    with pytest.raises(InvalidInputError, match="does not write to table") as refused:
        check_mark(checkpoint, MARK)
    assert refused.value.kind == "checkpoint_of_another"


def test_inside_its_first_batch_a_query_may_say_what_it_writes_to(checkpoint):
    begin(checkpoint, batches=1, done=0)
    assert check_mark(checkpoint, MARK, in_batch=True) == MARK
    with pytest.raises(InvalidInputError, match="into table 'db"):
        check_mark(checkpoint, replace(MARK, table="db.u"), in_batch=True)


def test_after_its_first_batch_it_may_not(checkpoint):
    begin(checkpoint, batches=2, done=1)
    with pytest.raises(InvalidInputError, match="does not write to table"):
        check_mark(checkpoint, MARK, in_batch=True)


def test_sources_that_are_not_known_are_not_compared(checkpoint):
    checkpoint.put_mark(MARK)
    begin(checkpoint)
    assert check_mark(checkpoint, replace(MARK, sources=())) == MARK


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"v": 2}', '{"v": 1, "table": "t"}'])
def test_a_damaged_mark_is_said(checkpoint, text):
    begin(checkpoint)
    (checkpoint.folder.path / MARK_FILE).write_text(text)
    with pytest.raises(CorruptError, match=MARK_FILE) as refused:
        check_mark(checkpoint, MARK)
    assert refused.value.kind == "checkpoint_damaged"


def test_damaged_metadata_is_said(checkpoint):
    begin(checkpoint)
    (checkpoint.folder.path / "metadata").write_text("{")
    with pytest.raises(CorruptError, match="metadata is damaged"):
        checkpoint.query_id()


def test_a_folder_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    checkpoint = Checkpoint.of(tmp_path / "file" / "below", table="db.t")
    with pytest.raises(StorageError, match="cannot be written"):
        checkpoint.put_mark(MARK)
