"""``tidelake doctor storage``: a line for each thing that a warehouse needs of its store."""

from __future__ import annotations

import sys

from tidelake.cli.arguments import DoctorArguments
from tidelake.engine.env import Env
from tidelake.engine.storage import (
    examine,
    parse_hdfs_settings,
    parse_location,
    parse_settings,
    split_options,
)
from tidelake.errors import TidelakeError

FAILED = 1
LOCAL, HDFS = "file", "hdfs"


def run(given: DoctorArguments) -> int:
    """Examine the warehouse's store and print the findings.

    Returns
    -------
    int
        0 if all passed.
    """
    try:
        location = parse_location(given.warehouse)
        if location.scheme == LOCAL:
            sys.stderr.write(f"{location} is in local files, which need no examination.\n")
            return FAILED
        storage = split_options(given.catalog_options)[1]
        settings = (
            parse_hdfs_settings(storage)
            if location.scheme == HDFS
            else parse_settings(location.scheme, storage)
        )
        failed = 0
        for found in examine(
            location, settings, Env.system(), processes=given.processes, names=given.names
        ):
            failed += not found.passed
            word = "pass" if found.passed else "FAIL"
            sys.stdout.write(f"{word}  {found.name}: {found.detail}\n")
            sys.stdout.flush()
    except TidelakeError as error:
        sys.stderr.write(f"{error}\n")
        return FAILED
    return FAILED if failed else 0
