"""Times as texts: read exactly as Java's DateTimeFormatter reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelake.types.java_time import (
    NS_PER_DAY,
    TimeFormatter,
    TimePatternError,
    local_time_text,
)

GOLDEN = Path(__file__).parents[3] / "golden" / "java_times.txt"


def cases():
    for line in GOLDEN.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            yield line.split("\t")


def read(pattern, text):
    try:
        found = TimeFormatter.of_pattern(pattern).parse(text)
    except TimePatternError:
        return "!"
    return "-" if found is None else str(found)


def test_texts_are_read_as_java_reads_them():
    wrong = [(p, t, w, read(p, t)) for p, t, w in cases() if read(p, t) != w]
    assert wrong == []


def test_texts_of_all_outcomes_were_drawn():
    outcomes = [want if want in "!-" else "time" for *_, want in cases()]
    assert min(outcomes.count(kind) for kind in ("!", "-", "time")) > 5


@pytest.mark.parametrize(
    ("pattern", "says"),
    [
        ("yyyy-'MM", "does not end"),
        ("yyyy]", "has no '\\['"),
        ("yyyy{", "must be quoted"),
        ("YYYY-MM-dd", "'Y' is not read here"),
        ("yyyy-MM-ddX", "'X' is not read here"),
        ("jj", "'j' is no letter of a time"),
        ("ddd", "too many: at most 2"),
        ("yyyy-p-", "must stand before the letters"),
        ("ppdH", "behind one that is padded"),
        ("SSSSSSSSSS", "too many"),
    ],
)
def test_what_is_no_pattern_is_refused_with_the_reason(pattern, says):
    with pytest.raises(TimePatternError, match=says):
        TimeFormatter.of_pattern(pattern)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2024-1-3", "2024-01-03 00:00:00"),
        ("2024-13-32", "2025-02-01 00:00:00"),
        ("2024-01-31 25:61:61", "2024-02-01 02:02:01"),
        ("2024-01-31 08:00:00.5", "2024-01-31 08:00:00"),
        ("-5-01-01", "-005-01-01 00:00:00"),
        ("20240131", None),
        ("2024-01-31T08:00", None),
        ("2024-01-31 8", None),
        ("", None),
        ("19753", None),
    ],
)
def test_without_a_pattern_days_and_times_of_sql_are_read(text, shown):
    found = TimeFormatter.lenient().parse(text)
    assert (None if found is None else local_time_text(found)) == shown


def test_each_distinct_text_is_read_once(monkeypatch):
    formatter, asked = TimeFormatter.of_pattern("yyyyMMdd"), []
    plain = TimeFormatter.parse

    def counted(self, text):
        asked.append(text)
        return plain(self, text)

    monkeypatch.setattr(TimeFormatter, "parse", counted)
    texts = ["19700102", "x", "19700102"]
    assert formatter.parse_all(texts) == [NS_PER_DAY, None, NS_PER_DAY]
    assert asked == ["19700102", "x"]


def test_a_format_without_a_date_says_so():
    patterns = ["HH:mm", "MM-dd", "yyyy-MM", "yyyy-DDD", "[yyyy]MMdd", "uuuu/ppd/MMM"]
    assert [TimeFormatter.of_pattern(p).has_date for p in patterns] == [
        False, False, False, True, True, True
    ]  # fmt: skip
