"""Java's date patterns: what Java 17 prints for them, in English, is what we print."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelake.cdc.columns.date_pattern import PatternError, parse_pattern
from tidelake.cdc.columns.local_times import LocalTimes

GOLDEN = Path(__file__).parents[3] / "golden"

HEADER, *LINES = [
    line.split("\t") for line in (GOLDEN / "java_date_patterns.tsv").read_text("utf-8").splitlines()
]
JAVA = {pattern: outputs for pattern, *outputs in LINES}
OURS_REFUSES = {"Y", "w", "ww", "W", "e", "c", "ccc", "F", "B", "ppyy", "g", "ggggg"}
KNOWN = [p for p, said in JAVA.items() if said[0] != "refused" and p not in OURS_REFUSES]


def times_of(texts):
    """The times of the table's header, whose years Python's dates do not have."""
    days, nanos = [], []
    for text in texts:
        date, _, time = text.lstrip("+").partition("T")
        hour, minute, second = time.split(":")
        whole, _, fraction = second.partition(".")
        days.append(np.datetime64(date, "D").astype(int))
        seconds = (int(hour) * 60 + int(minute)) * 60 + int(whole)
        nanos.append(seconds * 10**9 + int(fraction.ljust(9, "0")))
    return LocalTimes(np.array(days), np.array(nanos), np.ones(len(days), bool))


TIMES = times_of(HEADER[1:])


@pytest.mark.parametrize("pattern", KNOWN)
def test_a_pattern_gives_what_java_gives(pattern):
    assert parse_pattern(pattern).format(TIMES).to_pylist() == JAVA[pattern]


def test_what_java_refuses_is_refused_and_what_depends_on_the_machine():
    for pattern in set(JAVA) - set(KNOWN):
        with pytest.raises(PatternError):
            parse_pattern(pattern)
    assert set(JAVA) >= OURS_REFUSES
    assert len(KNOWN) > 60


PIECES = [p for p in KNOWN if p.isalpha() and p.isascii()]


@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=6), st.sampled_from("-/ :."))
def test_a_pattern_of_known_pieces_gives_their_outputs_in_order(pieces, between):
    expected = [between.join(row) for row in zip(*(JAVA[p] for p in pieces), strict=True)]
    assert parse_pattern(between.join(pieces)).format(TIMES).to_pylist() == expected


@given(st.text(max_size=20))
def test_a_quoted_text_is_itself(text):
    quoted = "'" + text.replace("'", "''") + "'" if text else "''"
    assert parse_pattern(quoted).format(TIMES).to_pylist() == [text or "'"] * len(TIMES.days)


def test_a_row_without_a_time_has_no_text():
    times = LocalTimes(np.array([0, 0]), np.array([0, 0]), np.array([True, False]))
    assert parse_pattern("yyyy").format(times).to_pylist() == ["1970", None]
    assert parse_pattern("'x'").format(times).to_pylist() == ["x", None]


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("yyyy-ww", "'w' depends on the machine's language"),
        ("HH:mm z", "time zones"),
        ("dt=yyyy", "'t' is no letter of patterns: quote a text, as in \"'t'\""),
        ("ddd", "'ddd' has more than 2 letters"),
        ("yyyy'", "a quote is not closed"),
        ("{", "reserved"),
    ],
)
def test_a_refusal_says_why(pattern, said):
    with pytest.raises(PatternError) as refused:
        parse_pattern(pattern)
    assert said in str(refused.value)
