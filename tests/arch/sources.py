"""The modules of the source as trees of syntax, parsed when a test first asks for them.

Each process of a run collects all tests, and a few run these. The trees are 400 MB: where they are
made while tests are collected, each process has them, and its garbage collector walks them.
"""

import ast
import functools
from pathlib import Path

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src"


@functools.cache
def trees() -> dict[Path, ast.Module]:
    """Each module's tree by its path, in the order of the paths."""
    return {path: parsed(path) for path in sorted(SRC.rglob("*.py"))}


def parsed(path: Path) -> ast.Module:
    """The tree of one module."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))
