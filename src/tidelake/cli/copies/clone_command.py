"""The command ``tidelake clone``: copies a table into a new one."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from tidelake.cli.command_line.opened_table import opened
from tidelake.cli.copies.arguments import CloneArguments
from tidelake.engine.tables import open_catalog
from tidelake.errors import TidelakeError

FAILED = 1


def run(given: CloneArguments) -> int:
    """Run the command and return the exit code."""
    try:
        source = opened(given.warehouse, given.source, given.catalog_options)
        if given.to is None:
            catalog = open_catalog(given.warehouse, catalog=given.catalog_options)
        else:
            catalog = open_catalog(given.to, catalog=given.to_options)
        done = catalog.clone_table(
            source,
            given.target,
            snapshot=given.snapshot,
            tag=given.tag,
            where=given.where,
            history=given.history,
            dry_run=given.dry_run,
        )
    except TidelakeError as error:
        sys.stderr.write(f"error: {error.message}\n")
        return FAILED
    text = json.dumps(asdict(done), ensure_ascii=False) if given.as_json else str(done)
    sys.stdout.write(f"{text}\n")
    return 0
