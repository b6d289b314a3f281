"""The command ``tidelake migrate``: makes a table of another format a new table."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from tidelake.cli.copies.arguments import MigrateArguments
from tidelake.engine.tables import open_catalog
from tidelake.errors import TidelakeError

FAILED = 1


def run(given: MigrateArguments) -> int:
    """Run the command and return the exit code."""
    try:
        catalog = open_catalog(given.warehouse, catalog=given.catalog_options)
        done = catalog.migrate_table(
            given.kind,
            given.source,
            given.target,
            options=given.options,
            partition_types=given.partition_types,
            delete_origin=given.delete_origin,
            dry_run=given.dry_run,
        )
    except TidelakeError as error:
        sys.stderr.write(f"error: {error.message}\n")
        return FAILED
    text = json.dumps(asdict(done), ensure_ascii=False) if given.as_json else str(done)
    sys.stdout.write(f"{text}\n")
    return 0
