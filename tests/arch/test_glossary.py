"""Names use the words of the glossary: what it retired does not come back."""

import ast
import re

import pytest
from arch.sources import ROOT, SRC, trees

GLOSSARY = ROOT / "docs" / "internals" / "glossary.md"
WHERE_IS = ROOT / "docs" / "internals" / "where-is.md"
QUESTIONS = 40
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def rows_of(page):
    text = page.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


RETIRED = [row[0] for row in rows_of(GLOSSARY) if row[-1] == "**out**"]


def retired_in(name, words):
    """The retired words of a name: whole parts of it, ``in_place`` left aside."""
    parts = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().replace("in_place", "")
    return [word for word in words if re.search(rf"(?<![a-z0-9]){word}(?![a-z0-9])", parts)]


def names():
    """Every name of a module, class or function of the source, with where it is."""
    for path, tree in trees().items():
        where = path.relative_to(ROOT)
        yield where, path.stem
        for node in ast.walk(tree):
            if isinstance(node, DEFINITIONS):
                yield f"{where}:{node.lineno}", node.name


def test_retired_words_are_in_no_name():
    split = [word for text in RETIRED for word in text.split(", ")]
    assert split
    wrong = [f"{where}: {name}" for where, name in names() if retired_in(name, split)]
    assert not wrong


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("KeyPlaces", ["places"]),
        ("_by_place", ["place"]),
        ("delete_in_place", []),
        ("replace", []),
        ("told_if_expired", ["told"]),
        ("OwnCommits", ["own_commits"]),
    ],
)
def test_a_retired_word_is_found_as_a_part_of_a_name(name, found):
    assert retired_in(name, ["place", "places", "told", "own_commits"]) == found


def test_each_question_of_a_newcomer_has_a_module_that_exists():
    answers = [row[1].strip("`") for row in rows_of(WHERE_IS) if row[1].startswith("`")]
    assert len(answers) == QUESTIONS
    paths = [SRC.joinpath(*name.split(".")).with_suffix(".py") for name in answers]
    assert [str(path) for path in paths if not path.is_file()] == []
