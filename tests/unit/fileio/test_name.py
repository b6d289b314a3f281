"""Hostile names are refused, plain ones pass."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelake.errors import InvalidInputError
from tidelake.fileio import validate_name

KINDS = ["database", "table", "tag", "branch", "column", "user"]
HOSTILE = {
    "empty": "",
    "dot": ".",
    "dot_dot": "..",
    "climbing": "../evil",
    "absolute": "/etc/passwd",
    "slash": "a/b",
    "backslash": "a\\b",
    "nul": "a\0b",
    "newline": "a\nb",
    "escape": "\x1b[2J",
    "delete_char": "a\x7fb",
    "right_to_left_override": "a\u202eb",
    "zero_width": "a\u200bb",
    "line_separator": "a\u2028b",
    "lone_surrogate": "a\ud800b",
    "long": "n" * 201,
    "long_in_bytes": "é" * 101,
    "very_long": "x" * 10_000_000,
    "not_normal": "e\u0301",
    "space_before": " a",
    "space_after": "a ",
}


WITH_SLASH = ["climbing", "absolute", "slash", "backslash"]


@pytest.mark.parametrize(
    ("what", "name"),
    [
        pytest.param(what, name, id=f"{what}-{case}")
        for what in KINDS
        for case, name in HOSTILE.items()
        if what != "column" or case not in WITH_SLASH
    ],
)
def test_a_hostile_name_is_refused(name, what):
    with pytest.raises(InvalidInputError, match=f"not a valid {what} name") as caught:
        validate_name(name, what)
    assert caught.value.kind == "bad_name"


@pytest.mark.parametrize("what", KINDS)
@pytest.mark.parametrize(
    "name", ["t", "flights_2013", "Größe", "表", "a b", "%2e%2e", "user-1", "n" * 200]
)
def test_a_plain_name_passes(name, what):
    assert validate_name(name, what) == name


@pytest.mark.parametrize(
    ("name", "what"),
    [
        (".hidden", "table"),
        (".hidden", "user"),
        ("a.b", "table"),
        ("a.b", "database"),
        ("t$files", "table"),
        ("$x", "database"),
        ("main", "branch"),
        ("12", "branch"),
    ],
)
def test_reserved_names_are_refused_where_they_mean_something(name, what):
    with pytest.raises(InvalidInputError):
        validate_name(name, what)


@pytest.mark.parametrize(
    ("name", "what"),
    [("v1.0", "tag"), ("a.b", "column"), ("$x", "column"), ("main", "tag")]
    + [(HOSTILE[case], "column") for case in WITH_SLASH],
)
def test_reserved_names_pass_where_they_mean_nothing(name, what):
    assert validate_name(name, what) == name


def test_a_name_that_is_no_string_is_refused():
    with pytest.raises(InvalidInputError, match="int"):
        validate_name(7, "table")


@given(st.text(max_size=30), st.sampled_from(KINDS))
def test_what_passes_is_one_safe_file_name(name, what):
    try:
        passed = validate_name(name, what)
    except InvalidInputError:
        return
    assert passed == name
    assert "/" not in passed or what == "column"
    assert passed not in {"", ".", ".."}
    assert passed.isprintable() or " " in passed or not passed.isascii()
    assert len(passed.encode()) <= 200
