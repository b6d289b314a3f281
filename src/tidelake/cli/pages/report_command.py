"""The command ``tidelake report``: a table as one HTML file."""

from __future__ import annotations

import sys
from pathlib import Path

from tidelake.cli.pages.arguments import ReportArguments
from tidelake.engine.tables import open_catalog
from tidelake.errors import TidelakeError
from tidelake.ui.report import report

FAILED = 1
STANDARD_OUTPUT = "-"


def run(given: ReportArguments) -> int:
    """Run the command and return the exit code."""
    try:
        catalog = open_catalog(given.warehouse, catalog=given.catalog_options, memory=given.memory)
        text = report(catalog, given.table)
    except TidelakeError as error:
        sys.stderr.write(f"error: {error.message}\n")
        return FAILED
    if given.output == STANDARD_OUTPUT:
        sys.stdout.write(text)
        return 0
    try:
        Path(given.output).write_text(text, encoding="utf-8")
    except OSError as error:
        sys.stderr.write(f"error: {given.output} cannot be written: {error.strerror}\n")
        return FAILED
    sys.stdout.write(f"{given.output}: {len(text.encode()):,} bytes\n")
    return 0
