"""The program's entry point: command line in, exit code out."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Mapping, Sequence

from tidelake.cli._optional import load
from tidelake.cli.arguments import (
    Arguments,
    CdcArguments,
    ConnectArguments,
    DoctorArguments,
    GetArguments,
    ServeArguments,
    TailArguments,
    read_arguments,
)
from tidelake.cli.clustering.arguments import ClusterArguments
from tidelake.cli.command_line.flag import PROGRAM
from tidelake.cli.command_line.usage_error import UsageError
from tidelake.cli.compare.arguments import BisectArguments, BlameArguments, DiffArguments
from tidelake.cli.copies.arguments import CloneArguments, MigrateArguments
from tidelake.cli.health.arguments import FilesArguments, TableDoctorArguments
from tidelake.cli.indexing.arguments import IndexArguments
from tidelake.cli.pages.arguments import ReportArguments, UiArguments
from tidelake.cli.upkeep.arguments import CompactArguments, ExpireArguments, OrphansArguments
from tidelake.cli.versions.arguments import LookArguments, VersionArguments
from tidelake.errors import UnsupportedError

USAGE = 2
INTERRUPTED = 130
READER_GONE = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the program's name; this process's by default.

    Returns
    -------
    int
        The exit code: see :data:`tidelake.cli.declaration.EXIT_CODES`.
    """
    if not sys.warnoptions:
        warnings.simplefilter("ignore")  # libraries warn of what a user of SQL cannot change
        warnings.filterwarnings("default", module=r"tidelake\.spark\.jvm\.")  # what is slower
    # libraries also log the errors they raise; without a handler Python prints the log
    logging.getLogger().addHandler(logging.NullHandler())
    try:
        given = read_arguments(sys.argv[1:] if argv is None else argv)
        name = _name(given)
        what = f"tidelake {name.rpartition('.')[2]}"
        command = load(f"tidelake.cli.{name}_command", what=what, extra="cli")
    except (UsageError, UnsupportedError) as error:
        sys.stderr.write(f"{PROGRAM}: {error}\n")
        return USAGE
    try:
        return int(command.run(given))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # flushing the buffer at exit would raise again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE


_ROOMS: Mapping[type, str] = {
    TailArguments: "tail",
    ServeArguments: "serve",
    ConnectArguments: "on_spark.connect",
    GetArguments: "get",
    DoctorArguments: "doctor",
    OrphansArguments: "upkeep.orphans",
    ExpireArguments: "upkeep.expire",
    TableDoctorArguments: "health.doctor",
    FilesArguments: "health.files",
    UiArguments: "pages.ui",
    ReportArguments: "pages.report",
    DiffArguments: "compare.diff",
    BlameArguments: "compare.blame",
    BisectArguments: "compare.bisect",
    IndexArguments: "indexing.index",
    CloneArguments: "copies.clone",
    MigrateArguments: "copies.migrate",
    ClusterArguments: "clustering.cluster",
    LookArguments: "versions.look",
    VersionArguments: "versions.version",
    CompactArguments: "upkeep.compact",
    CdcArguments: "cdc",
}


def _name(given: Arguments) -> str:
    """The command that arguments are of, with its room."""
    return _ROOMS.get(type(given), "sql")
