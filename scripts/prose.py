"""Hold the pages to the house's measure: short lines, short sentences, short table cells.

Usage: python scripts/prose.py [page ...]

It reads README, CONTRIBUTING, ARCHITECTURE and all pages under docs/: no line over 160 columns, no
sentence over 40 words, no cell of a table over 40. Code blocks have no sentences. A sentence ends
with a full stop, a question mark or an exclamation mark, or with its paragraph or list item. A link
counts as its text, code in backticks as one word. Only the rows that a benchmark wrote may be wide.
On the pages that users read first, code has at most 90 columns: so much fits the box of a page.
"""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COLUMNS_MAX = 160
WRAP_COLUMNS = 140
SENTENCE_WORDS_MAX = 40
CELL_WORDS_MAX = 40
CODE_COLUMNS_MAX = 90
FENCE = re.compile(r"^ *(```|~~~)")
ITEM = re.compile(r"^ *(?:[-*+:]|\d+[.)]) +")
ENDS = re.compile(r"(?<=[.!?])[\"')*_\]]*\s+")
QUOTE = re.compile(r"^(?: *> ?)+")
CODE = re.compile(r"``.+?``|`[^`]*`")
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
CELL_BORDER = re.compile(r"(?<!\\)\|")
WIDE_ROWS = {"docs/internals/benchmarks-record.md"}
READ_FIRST = (
    "README.md",
    "docs/index.md",
    "docs/quickstart.md",
    "docs/recipes/",
    "docs/spark.md",
    "docs/sql.md",
    "docs/sql/",
    "docs/streams.md",
)


def pages() -> list[Path]:
    """Every page that a reader is meant to read."""
    top = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md")]
    return [*top, *sorted((ROOT / "docs").rglob("*.md"))]


def breaches(
    text: str, *, has_wide_rows: bool = False, code_columns_max: int = COLUMNS_MAX
) -> Iterator[tuple[int, str]]:
    """Line number and what is wrong there, for each breach in a page's text."""
    paragraph: list[str] = []
    first = 0
    is_code = False
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if FENCE.match(line):
            is_code = not is_code
        quoted = QUOTE.sub("", line)
        is_row = not is_code and quoted.lstrip().startswith("|")
        columns_max = code_columns_max if is_code else COLUMNS_MAX
        if len(line) > columns_max and not (is_row and has_wide_rows):
            yield number, f"{len(line)} columns"
        if is_row:
            yield from ((number, said) for said in _cells(quoted))
        is_prose = not (is_code or is_row or FENCE.match(line) or line.startswith("#"))
        if ITEM.match(quoted) or not is_prose or not quoted.strip():
            yield from ((first, said) for said in _sentences(" ".join(paragraph)))
            paragraph = []
        if is_prose and quoted.strip():
            first = first if paragraph else number
            paragraph.append(ITEM.sub("", quoted).strip())


def _cells(row: str) -> Iterator[str]:
    for cell in CELL_BORDER.split(row):
        if (count := len(_words(cell))) > CELL_WORDS_MAX:
            yield f"a cell of {count} words: {cell.strip()[:60]}"


def _sentences(paragraph: str) -> Iterator[str]:
    for sentence in ENDS.split(_plain(paragraph)):
        if (count := len(_words(sentence))) > SENTENCE_WORDS_MAX:
            yield f"a sentence of {count} words: {sentence[:60]}"


def _plain(text: str) -> str:
    return CODE.sub("code", LINK.sub(r"\1", text))


def _words(text: str) -> list[str]:
    return [word for word in _plain(text).split() if re.search(r"\w", word)]


def wrapped(text: str, *, first: str = "", indent: str = "") -> str:
    """Break a paragraph of a generated page into lines; code in backticks stays on one line."""
    kept = CODE.sub(lambda match: match[0].replace(" ", "\0"), text)
    broken = textwrap.fill(
        kept,
        WRAP_COLUMNS,
        initial_indent=first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return broken.replace("\0", " ")


def found(page: Path) -> list[str]:
    """Each breach of a page, as ``page:line: what``."""
    name = page.relative_to(ROOT).as_posix()
    wrong = breaches(
        page.read_text(encoding="utf-8"),
        has_wide_rows=name in WIDE_ROWS,
        code_columns_max=CODE_COLUMNS_MAX if name.startswith(READ_FIRST) else COLUMNS_MAX,
    )
    return [f"{name}:{number}: {said}" for number, said in wrong]


def main() -> int:
    """Print each breach; fail where there is one."""
    named = [Path(name).resolve() for name in sys.argv[1:]] or pages()
    wrong = [line for page in named for line in found(page)]
    print("\n".join(wrong) if wrong else "prose: fine")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
