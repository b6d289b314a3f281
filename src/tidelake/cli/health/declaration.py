"""Declares the commands that look after the files of a table."""

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

_DATA = Flag(("--data",), "Read all rows and indexes too; without it files are compared by length.")
FSCK = Command(
    "fsck",
    "Check the files of a table: whether each snapshot and tag can be read as it was written.",
    (
        ONE_TABLE,
        WAREHOUSE,
        DATABASE,
        _DATA,
        Flag(("--json",), "Print one JSON object."),
        CATALOG_OPTION,
        CATALOG_FILE,
    ),
)
REPAIR = Command(
    "repair",
    "Print what would mend the files of a table, step by step. Nothing is changed.",
    (
        ONE_TABLE,
        WAREHOUSE,
        DATABASE,
        Flag(("--plan",), "Print the plan; must be given."),
        _DATA,
        Flag(("--json",), "Print one JSON object."),
        CATALOG_OPTION,
        CATALOG_FILE,
    ),
)
