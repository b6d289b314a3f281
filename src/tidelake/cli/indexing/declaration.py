"""Declares the command for the indexes of data files."""

from __future__ import annotations

from tidelake.cli.command_line.flag import (
    CATALOG_FILE,
    CATALOG_OPTION,
    DATABASE,
    ONE_TABLE,
    WAREHOUSE,
    Command,
    Flag,
)

INDEX = Command(
    "index",
    "Give data files the file indexes that the table's options name. Spark does not start.",
    (
        ONE_TABLE,
        WAREHOUSE,
        DATABASE,
        Flag(("--where",), "Only partitions of this condition: `dt > '2026-01-01'`.", value="TEXT"),
        Flag(("--dry-run",), "Show how many files would get indexes, and change nothing."),
        Flag(("--json",), "Print one JSON object."),
        CATALOG_OPTION,
        CATALOG_FILE,
    ),
)
