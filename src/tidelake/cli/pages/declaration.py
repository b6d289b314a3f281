"""Declares the commands that show a warehouse as pages."""

from __future__ import annotations

from tidelake.cli.command_line.flag import (
    CATALOG_FILE,
    CATALOG_OPTION,
    DATABASE,
    MEMORY,
    ONE_TABLE,
    WAREHOUSE,
    Command,
    Flag,
)

UI = Command(
    "ui",
    "Show a warehouse as pages in a browser, live, until Ctrl-C. Spark does not start.",
    (
        WAREHOUSE,
        Flag(
            ("--bind",),
            "Where to listen, as `host:port`; port 0 takes a free one. Any but this machine's own"
            " address needs a token.",
            value="ADDRESS",
            default="127.0.0.1:8765",
        ),
        Flag(
            ("--token",),
            "File with the token that callers must know, of 16 characters or more.",
            value="FILE",
        ),
        Flag(
            ("--allow-actions",),
            "Offer the calls that the doctor prescribes, each after its dry run. Without it pages"
            " only show.",
        ),
        CATALOG_OPTION,
        CATALOG_FILE,
        MEMORY,
    ),
)
REPORT = Command(
    "report",
    "Write what `tidelake ui` shows of a table as one HTML file, which needs no server.",
    (
        ONE_TABLE,
        WAREHOUSE,
        DATABASE,
        Flag(
            ("-o", "--output"),
            "The file; `-` is the standard output.",
            value="FILE",
            default="the table's name and `.html`",
        ),
        CATALOG_OPTION,
        CATALOG_FILE,
        MEMORY,
    ),
)
