"""What a look at the source found: a fault, and what mends it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SourceFinding:
    """One fault or warning.

    Parameters
    ----------
    kind : str
        Stable name of the case: ``wal_level``, ``no_primary_key``.
    mend : str
        The statement or option that mends it; empty without one.
    is_error : bool
        Whether a job cannot start with it.
    table : str
        The table concerned; empty for the whole source.
    is_lost_position : bool
        Whether it says that the job's position is lost, which a copy of all tables mends.
    """

    kind: str
    message: str
    mend: str = ""
    is_error: bool = True
    table: str = ""
    is_lost_position: bool = False
