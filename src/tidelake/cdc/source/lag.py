"""How far a position is behind its source, as the source itself can tell."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SourceLag:
    """What the source has behind a position.

    Parameters
    ----------
    bytes_count : int or None
        Bytes of its log; None of a source whose log has no bytes that are known.
    messages_count : int or None
        Messages, of topics.
    newest_ms : int or None
        When it committed its newest transaction; None if it does not tell.
    note : str
        Why it does not tell, and the statement that mends it; empty otherwise.
    """

    bytes_count: int | None = None
    messages_count: int | None = None
    newest_ms: int | None = None
    note: str = ""
