"""The hint LOOKUP."""

import pytest

from tidelake.errors import InvalidInputError
from tidelake.sql.syntax.hint import check_hints
from tidelake.sql.syntax.lookup_hint import lookup_hints

RETRY = (
    "LOOKUP('table'='d', 'retry-predicate'='lookup_miss', 'retry-strategy' = 'fixed_delay',"
    " 'fixed-delay'='10 s', 'max-attempts'='3')"
)


def left(text):
    check_hints(text)
    hints = lookup_hints(text, 0, len(text))
    for hint in sorted(hints, key=lambda h: -h.start):
        text = text[: hint.start] + text[hint.end :]
    return text, [(h.table, h.attempts_max, h.delay_ms) for h in hints]


def test_spark_is_not_given_the_hint():
    assert left(f"SELECT /*+ {RETRY} */ 1") == ("SELECT  1", [("d", 3, 10_000)])
    text = f"SELECT /*+ {RETRY}, LOOKUP('table'='e', 'async'='true') */ 1 FROM t /*+ OPTIONS() */"
    assert left(text) == ("SELECT  1 FROM t /*+ OPTIONS() */", [("d", 3, 10_000), ("e", 0, 0)])
    expected = [("d", 3, 10_000)]
    assert left(f"SELECT /*+ {RETRY}, BROADCAST(t) */ 1") == (
        "SELECT /*+  BROADCAST(t) */ 1",
        expected,
    )
    assert left(f"SELECT /*+ BROADCAST(t) , {RETRY} */ 1") == (
        "SELECT /*+ BROADCAST(t)  */ 1",
        expected,
    )


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("'async'='true'", "needs 'table'"),
        ("'table'='d', 'max-attempts'='3'", "needs 'retry-predicate' too"),
        ("'table'='d', 'max-attempt'='3'", "no option 'max-attempt'.*'max-attempts'"),
        (RETRY[7:-1].replace("fixed_delay", "random"), "is 'fixed_delay', not 'random'"),
        (RETRY[7:-1].replace("10 s", "soon"), "'fixed-delay' of LOOKUP is a time"),
        (RETRY[7:-1].replace("'3'", "'-3'"), "'max-attempts' of LOOKUP is a number"),
        ("'table'='d', 'via'='redis'", "'via' of LOOKUP is auto, local or service"),
        ("'table' 'd'", "are 'key' = 'value'"),
    ],
)
def test_what_is_wrong_is_said(options, told):
    text = f"SELECT /*+ LOOKUP({options}) */ 1"
    with pytest.raises(InvalidInputError, match=told):
        lookup_hints(text, 0, len(text))
