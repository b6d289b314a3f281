"""The command ``tidelake diff``: the rows that differ between two versions."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from tidelake.cli.command_line.opened_table import opened, version_of
from tidelake.cli.compare.arguments import DiffArguments
from tidelake.cli.output.cell_text import json_text
from tidelake.cli.output.formats import rows_of
from tidelake.engine.env import local_zone
from tidelake.errors import TidelakeError, counted

FAILED = 1
_SIGNS = {"added": "+", "removed": "-", "changed": "~"}


def run(given: DiffArguments) -> int:
    """Run the command and return the exit code."""
    try:
        table = opened(given.warehouse, given.table, given.catalog_options)
        before, after = (version_of(table, text) for text in (given.before, given.after))
        assert before is not None
        diff = table.diff(before, after)
        if given.counts:
            counts = diff.counts()
            facts = {"added": counts.added, "removed": counts.removed, "changed": counts.changed}
            if given.as_json:
                _print(json.dumps({**facts, "columns": dict(counts.columns)}, ensure_ascii=False))
            else:
                _print(str(counts))
        else:
            names = diff.schema.names
            for row in rows_of(diff.to_batches(), local_zone() or "UTC"):
                one = dict(zip(names, row, strict=True))
                _print(json_text(one) if given.as_json else _text(one))
    except TidelakeError as error:
        sys.stderr.write(f"error: {error.message}\n")
        return FAILED
    files, shared = counted(diff.files_count, "file"), counted(diff.shared_files_count, "file")
    sys.stderr.write(f"{files} ({diff.size_bytes:,} bytes) compared, {shared} shared\n")
    return 0


def _text(row: Mapping[str, Any]) -> str:
    """One line for a row of a diff."""
    facts = {"change", "before", "after", "columns"}
    before, after = row["before"], row["after"]
    key = ", ".join(f"{n}={json_text(v)}" for n, v in row.items() if n not in facts)
    if before is not None and after is not None:
        values = [f"{n}: {json_text(before[n])} -> {json_text(after[n])}" for n in row["columns"]]
    else:
        only = after if before is None else before
        values = [f"{n}: {json_text(v)}" for n, v in only.items()]
    return " ".join(part for part in (_SIGNS[row["change"]], key, ", ".join(values)) if part)


def _print(text: str) -> None:
    sys.stdout.write(f"{text}\n")
