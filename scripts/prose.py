"""Hold the pages to the house's measure: short lines, short sentences, short table cells.

Usage: python scripts/prose.py [page ...]

What it reads: README, CONTRIBUTING, ARCHITECTURE and all pages under docs/. Code blocks are left
out. A sentence ends with a full stop, question mark, exclamation mark, colon or semicolon, or with
its paragraph or list item; links count as their text, code in backticks as one word. A row of a
table is one line in Markdown and may be longer than a line of prose; its cells may not.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COLUMNS_MAX = 160
SENTENCE_WORDS_MAX = 40
CELL_WORDS_MAX = 40
FENCE = re.compile(r"^ *(```|~~~)")
ITEM = re.compile(r"^ *(?:[-*+]|\d+[.)]) +")
ENDS = re.compile(r"(?<=[.!?])[\"')*_\]]*\s+")
QUOTE = re.compile(r"^(?: *> ?)+")
CODE = re.compile(r"``.+?``|`[^`]*`")
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
CELL_BORDER = re.compile(r"(?<!\\)\|")
ROW_COLUMNS_MAX = 160


def pages() -> list[Path]:
    """Every page that a reader is meant to read."""
    top = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md")]
    return [*top, *sorted((ROOT / "docs").rglob("*.md"))]


def breaches(text: str) -> Iterator[tuple[int, str]]:
    """Line number and what is wrong there, for each breach in a page's text."""
    paragraph: list[str] = []
    first = 0
    is_code = False
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if FENCE.match(line):
            is_code = not is_code
        quoted = QUOTE.sub("", line)
        is_row = not is_code and quoted.lstrip().startswith("|")
        if len(line) > (ROW_COLUMNS_MAX if is_row else COLUMNS_MAX):
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


def main() -> int:
    """Print each breach as ``page:line: what``; fail where there is one."""
    named = [Path(name).resolve() for name in sys.argv[1:]] or pages()
    found = [
        f"{page.relative_to(ROOT)}:{number}: {said}"
        for page in named
        for number, said in breaches(page.read_text(encoding="utf-8"))
    ]
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
