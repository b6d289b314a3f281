"""Finds a table's options among those of a stream, which have keys in lower case."""

from __future__ import annotations

from collections.abc import Mapping

from tidelake.errors import InvalidInputError, near_names, shortened
from tidelake.foreign_names import OF_SCAN_ARGUMENTS
from tidelake.options import declared, is_option
from tidelake.spark.streams.connector.provider import FILTER, SCHEMA, TABLE, WAREHOUSE
from tidelake.spark.streams.write.kept_changes import CHANGES

SOURCE_KEYS = (WAREHOUSE, TABLE, SCHEMA, FILTER, CHANGES, "path", "serialization.format")
"""Options of a source, from Spark or this package, that are not the table's."""
SINK_KEYS = ("path", "warehouse", "table", "checkpointlocation", "queryname")
"""Options of a sink, from the user or Spark, that are not the table's."""
_SPELLING = {
    key.lower(): key
    for option in declared.BY_KEY.values()
    for key in (option.key, *option.fallback_keys)
}


def option_key(key: str) -> str:
    """Return the declared key of an option; Spark gives keys in lower case.

    Examples
    --------
    >>> option_key("read.stream.maxfilespertrigger")
    'read.stream.maxFilesPerTrigger'
    """
    return _SPELLING.get(key.lower(), key.lower())


def stream_options(given: Mapping[str, str], own: tuple[str, ...] = SOURCE_KEYS) -> dict[str, str]:
    """Select a table's options from Spark's, with their declared keys.

    Parameters
    ----------
    own : tuple of str
        Keys, in lower case, that are not the table's.

    Raises
    ------
    InvalidInputError
        A key is unknown; the message suggests near names.
    """
    found = {}
    for key, value in given.items():
        folded = key.lower()
        if folded in own or folded.startswith("__"):
            continue
        known = option_key(key)
        if not is_option(known):
            here = OF_SCAN_ARGUMENTS.get(folded)
            near = f" Use '{here}'." if here else near_names(folded, declared.BY_KEY)
            message = (
                f"A stream of a table has no option '{shortened(key)}'.{near}"
                " Its options are those of the table (docs/options.md)."
            )
            raise InvalidInputError(message, kind="unknown_option", option=key)
        found[known] = value
    return found
