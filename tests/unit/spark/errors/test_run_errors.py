"""What Spark says of a query that failed becomes the error of ours that was behind it."""

import pytest

from tidelake.errors import InvalidInputError, NotFoundError, StorageError, TidelakeError
from tidelake.spark.errors.passed_errors import keep_error
from tidelake.spark.errors.run_errors import run_failure, stream_failure

FAILED = (
    "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: {} SQLSTATE: XXKST\n"
    "=== Streaming Query ===\nIdentifier: [id = 1]\n"
)
OF_A_TASK = (
    "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
    '  File "a.py", line 1, in read\n    yield\n'
    "tidelake.errors.StorageError: No broker answers. Check it.\n"
)


def test_what_a_callback_raised_comes_back_as_it_was():
    ours = NotFoundError("There is no snapshot 41.", kind="snapshot_not_found", snapshot=41)
    try:
        raise ours
    except NotFoundError:
        keep_error(ours)
    found = stream_failure(Exception(FAILED.format(ours.message)))
    assert (type(found), vars(found)) == (NotFoundError, vars(ours))
    assert found.__traceback__ is None  # whose frames hold data
    assert stream_failure(ours) is ours


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (OF_A_TASK, StorageError, "No broker answers. Check it."),
        (FAILED.format("tidelake.errors.InvalidInputError: wrong"), InvalidInputError, "wrong"),
        (FAILED.format("disk is full."), TidelakeError, "Spark failed: disk is full."),
    ],
)
def test_other_failures_are_one_sentence(text, kind, message):
    found = stream_failure(Exception(text))
    assert type(found) is kind
    assert found.message == message


@pytest.mark.parametrize("between", ["\n", " "])
def test_an_error_that_a_worker_tells_without_a_traceback_is_taken_for_ours(between):
    text = f"An exception was thrown from the Python worker:{between}tidelake.errors."
    for found in (run_failure, stream_failure):
        error = found(Exception(f"{text}NotFoundError: Table '/w/db.db/t' was dropped."))
        assert type(error) is NotFoundError
        assert error.message == "Table '/w/db.db/t' was dropped."
