"""The command ``tidelake index``: gives data files the indexes of the table's options."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from tidelake.cli.command_line.opened_table import opened
from tidelake.cli.indexing.arguments import IndexArguments
from tidelake.errors import TidelakeError, counted

FAILED = 1


def run(given: IndexArguments) -> int:
    """Run the command and return the exit code."""
    try:
        table = opened(given.warehouse, given.table, given.catalog_options)
        done = table.maintenance.rewrite_file_index(where=given.where, dry_run=given.dry_run)
    except TidelakeError as error:
        sys.stderr.write(f"error: {error.message}\n")
        return FAILED
    if given.as_json:
        text = json.dumps(asdict(done), ensure_ascii=False)
    else:
        would = "would get" if given.dry_run else "got"
        text = f"{done.table}: {counted(done.files_count, 'file')} {would} indexes"
        if done.buckets_dropped:
            text += f"; {done.buckets_dropped} buckets were changed meanwhile: run it again"
    sys.stdout.write(f"{text}\n")
    return 0
