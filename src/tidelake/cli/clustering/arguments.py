"""Arguments of ``tidelake cluster``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ClusterArguments:
    """Arguments of ``tidelake cluster``.

    Parameters
    ----------
    table : str
        ``"database.table"``.
    order : str, optional
        The strategy; None for what the table's options say.
    by : tuple of str, optional
        The columns.
    where : str, optional
        A condition on partition columns.
    full : bool
        Whether an incremental clustering takes all files.
    as_json : bool
        Print JSON objects.
    """

    warehouse: str
    table: str
    order: str | None = None
    by: tuple[str, ...] | None = None
    where: str | None = None
    full: bool = False
    dry_run: bool = False
    as_json: bool = False
    memory: str | None = None
    catalog_options: Mapping[str, str] = field(default_factory=dict, repr=False)
