"""Arguments of the command for the indexes of data files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidelake.cli.indexing.declaration import INDEX


@dataclass(frozen=True, slots=True)
class IndexArguments:
    """Arguments of ``tidelake index``.

    Parameters
    ----------
    as_json : bool
        Print one JSON object.
    """

    warehouse: str
    table: str
    where: str | None = None
    dry_run: bool = False
    as_json: bool = False
    catalog_options: Mapping[str, str] = field(default_factory=dict, repr=False)


def index_arguments(given: Mapping[str, Any], warehouse: str) -> IndexArguments:
    """Read the arguments of ``tidelake index``."""
    table = given["table"]
    return IndexArguments(
        warehouse,
        table if "." in table else f"{given['database'] or 'default'}.{table}",
        where=given["where"],
        dry_run=given["dry_run"],
        as_json=given["json"],
        catalog_options=given["catalog_options"],
    )


INDEX_READERS: Mapping[str, Callable[[Mapping[str, Any], str], IndexArguments]] = {
    INDEX.name: index_arguments
}
