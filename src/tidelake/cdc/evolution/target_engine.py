"""Whether a table's merge engine and buckets let it be what its source is.

Only ``deduplicate`` makes a target equal. Others are what some users want: the values of several
sources in one row, or the first row of each key. They are taken if they can take what the source
sends; a note says that the tables differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tidelake.options import declared

_IGNORES = ("ignore-delete", *(f"{engine}.ignore-delete" for engine in
            ("first-row", "deduplicate", "partial-update")))  # fmt: skip
_REMOVES = {
    "partial-update": ("partial-update.remove-record-on-delete",
                       "partial-update.remove-record-on-sequence-group"),
    "aggregation": ("aggregation.remove-record-on-delete",),
}  # fmt: skip
POSTPONE = "-2"


def engine_problem(options: Mapping[str, str], *, sends_whole_rows: bool) -> str | None:
    """Say why a table with a primary key cannot take what its source sends, as a clause.

    Parameters
    ----------
    sends_whole_rows : bool
        Whether a change of the source has all values of its row.
    """
    engine = _engine(options)
    removes = any(options.get(key) not in {None, "false"} for key in _REMOVES.get(engine, ()))
    if engine != "deduplicate" and not _ignores(options) and not removes:
        return (
            f"its merge engine '{engine}' takes no deletes, and the source sends some (leave"
            " 'merge-engine' out to keep the table equal, or set 'ignore-delete' = 'true': deleted"
            " rows stay then)"
        )
    if options.get(declared.BUCKET.key) == POSTPONE and not sends_whole_rows:
        return (
            "with 'bucket' = '-2' a row cannot be found before the next compaction, and the source"
            " leaves out large values that did not change (take another bucket, or have it send"
            " whole rows: ALTER TABLE ... REPLICA IDENTITY FULL)"
        )
    return None


def engine_notes(identifier: str, options: Mapping[str, str]) -> Iterator[str]:
    """Say how a table with a primary key will differ from its source, a sentence each."""
    engine = _engine(options)
    if options.get(declared.BUCKET.key) == POSTPONE:
        yield f"Rows of '{identifier}' are seen after a compaction: 'bucket' is '-2'."
    if engine != "deduplicate":
        yield f"Table '{identifier}' will differ from its source: its merge engine is '{engine}'."
    elif _ignores(options):
        yield f"Table '{identifier}' will keep deleted rows: 'ignore-delete' is 'true'."


def _engine(options: Mapping[str, str]) -> str:
    return options.get(declared.MERGE_ENGINE.key, "deduplicate")


def _ignores(options: Mapping[str, str]) -> bool:
    return any(options.get(key, "").lower() == "true" for key in _IGNORES)
