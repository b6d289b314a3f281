"""The sections of ``tests/golden/file_index.txt`` as bytes."""

from __future__ import annotations

from pathlib import Path

GOLDEN = Path(__file__).parents[3] / "golden" / "file_index.txt"

VALUES = [1, 2, None, 1]


def sections() -> dict[str, bytes]:
    """From a section's first line to its bytes."""
    found = {}
    for block in GOLDEN.read_text().split("\n\n")[1:]:
        title, *lines = block.strip().splitlines()
        found[title] = bytes.fromhex("".join(line.partition("#")[0] for line in lines))
    return found
