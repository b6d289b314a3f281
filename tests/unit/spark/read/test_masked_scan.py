from __future__ import annotations

import numpy as np
import pytest
from py4j.protocol import Py4JError

from tidelake.scan.masks import HiddenRows
from tidelake.spark.jvm import slower
from tidelake.spark.read import masked_scan
from tidelake.spark.read.masked_scan import KEPT_MAX, _KeptWords, takes_masks


@pytest.fixture
def sent(monkeypatch):
    """The words that were sent to the JVM."""
    found = []

    def local_words(_, words):
        found.append(words)
        return len(found)

    monkeypatch.setattr(masked_scan, "_local_words", local_words)
    return found


def mask_of(rows_count):
    return HiddenRows.of(np.arange(rows_count) % 2 == 0)


def test_the_same_masks_are_sent_once(sent):
    kept, spark = _KeptWords(), object()
    masks = [mask_of(100), mask_of(64)]
    assert kept.words(spark, masks) == kept.words(spark, list(masks)) == 1
    assert [len(words) for words in sent] == [3]
    kept.words(object(), masks)
    kept.words(spark, masks[:1])
    assert len(sent) == 3


def test_as_many_are_kept_as_the_bounds_allow(sent, monkeypatch):
    kept, spark = _KeptWords(), object()
    first = mask_of(64)
    kept.words(spark, [first])
    for _ in range(KEPT_MAX + 10):
        kept.words(spark, [mask_of(64)])
        kept.words(spark, [first])  # used again, so it stays
    assert len(sent) == KEPT_MAX + 11
    assert len(kept._kept) == KEPT_MAX
    mask = mask_of(64 * 1000)
    each = mask.nbytes + mask.words().nbytes
    monkeypatch.setattr(masked_scan, "KEPT_BYTES_MAX", 3 * each)
    for _ in range(9):
        kept.words(spark, [mask_of(64 * 1000)])
    assert len(kept._kept) == 3
    assert kept._kept.nbytes <= 3 * each


class Spark:
    """What is asked of a session."""

    version = "4.0.9"

    def __init__(self, context):
        self.sparkContext = context


class Context:
    """Of a session; has a weak reference."""


@pytest.mark.parametrize(
    "error", [Py4JError("no viable constructor"), TypeError("'JavaPackage' object is not callable")]
)
def test_a_spark_that_does_not_take_the_file_index_is_told_once(monkeypatch, error):
    def define(_):
        raise error

    monkeypatch.setattr(masked_scan, "define_listed_files", define)
    monkeypatch.setattr(slower, "_SAID", set())
    context = Context()
    with pytest.warns(RuntimeWarning) as said:
        assert [takes_masks(Spark(context)) for _ in range(3)] == [False] * 3
    assert [str(error) in str(one.message) for one in said] == [True]
    monkeypatch.setattr(masked_scan, "define_listed_files", lambda _: None)
    assert takes_masks(Spark(Context()))
    assert not takes_masks(Spark(context))
