"""Declares the commands that make tables of files that exist."""

from __future__ import annotations

from tidelake.cli.command_line.flag import (
    CATALOG_FILE,
    CATALOG_OPTION,
    DATABASE,
    WAREHOUSE,
    Command,
    Flag,
)

MIGRATE = Command(
    "migrate",
    "Make a table of another format a new table, in place: its files stay as they are. Spark does"
    " not start.",
    (
        Flag(
            ("kind",),
            "What it is: `parquet` (a directory of files), `hive` (directories such as"
            " `day=2024-01-01`), `delta` or `iceberg`.",
            value="KIND",
            choices=("parquet", "hive", "delta", "iceberg"),
        ),
        Flag(("source",), "Its directory: a path or a URI.", value="SOURCE"),
        Flag(
            ("target",), "The new table: `database.table`, or one of `--database`.", value="TABLE"
        ),
        WAREHOUSE,
        DATABASE,
        Flag(
            ("-o", "--option"),
            "An option of the new table, such as `file-index.bloom-filter.columns=id`.",
            value="KEY=VALUE",
            repeats=True,
        ),
        Flag(
            ("--partition-type",),
            "The type of a partition column of a Hive-style table, such as `hour=STRING`.",
            value="COLUMN=TYPE",
            repeats=True,
        ),
        Flag(("--delete-origin",), "Delete the source's directory at the end."),
        Flag(("--dry-run",), "Show what would be done, and change nothing."),
        Flag(("--json",), "Print one JSON object."),
        CATALOG_OPTION,
        CATALOG_FILE,
    ),
)
CLONE = Command(
    "clone",
    "Copy a table into a new one, of the same or another warehouse. Spark does not start.",
    (
        Flag(("source",), "The table: `database.table`, or one of `--database`.", value="SOURCE"),
        Flag(("target",), "The new table, or an empty one like it.", value="TARGET"),
        WAREHOUSE,
        DATABASE,
        Flag(("--to",), "The warehouse of the new table.", value="PATH", default="the same"),
        Flag(
            ("--to-option",),
            "An option of that warehouse's catalog or storage, such as `s3.endpoint=...`.",
            value="KEY=VALUE",
            repeats=True,
        ),
        Flag(("--snapshot",), "The snapshot to copy, by its id.", value="ID", default="the newest"),
        Flag(("--tag",), "The tag to copy.", value="NAME"),
        Flag(("--where",), "Only partitions of this condition: `dt > '2026-01-01'`.", value="TEXT"),
        Flag(("--history",), "Copy all snapshots, changelogs and tags."),
        Flag(("--dry-run",), "Show what would be copied, and change nothing."),
        Flag(("--json",), "Print one JSON object."),
        CATALOG_OPTION,
        CATALOG_FILE,
    ),
)
