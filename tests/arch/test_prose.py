"""Pages hold the house's measure of lines, sentences and cells; the check finds what breaks it."""

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SPEC = importlib.util.spec_from_file_location("prose", ROOT / "scripts" / "prose.py")
prose = sys.modules["prose"] = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(prose)

LONG = " ".join(["to"] * 41)


@pytest.mark.parametrize("page", prose.pages(), ids=lambda page: page.stem)
def test_a_page_holds_the_measure(page):
    assert prose.found(page) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"First.\nSecond {LONG}.", [(1, "a sentence of 42 words")]),
        (f"- item\n- {LONG}\n", [(2, "a sentence of 41 words")]),
        (f"| a | {LONG} |", [(1, "a cell of 41 words")]),
        (f"> | a | {LONG} |", [(1, "a cell of 41 words")]),
        ("x" * 161, [(1, "161 columns")]),
        (f"```text\n{LONG[:150]}\n```", []),
        (f"[{LONG[:20]}](page.md) `{LONG[:100]}` is short.", []),
        (f"{LONG[:100]}.\n{LONG[:100]}.", []),
    ],
)
def test_what_breaks_the_measure_is_found(text, said):
    found = list(prose.breaches(text))
    assert [(line, what.partition(":")[0]) for line, what in found] == said


def test_code_has_a_measure_of_its_own():
    text = f"{'y' * 91}\n```python\n{'x' * 91}\n```\n"
    assert list(prose.breaches(text, code_columns_max=90)) == [(3, "91 columns")]


def test_a_wrapped_line_breaks_no_code():
    text = "Set `a b c d` " * 20
    wrapped = prose.wrapped(text, first="- ", indent="  ").splitlines()
    assert all(len(line) <= prose.WRAP_COLUMNS for line in wrapped)
    assert all(line.count("`") % 2 == 0 for line in wrapped)
