"""Decides whether a stream goes on after an ALTER TABLE.

The columns of a running stream are those of the schema that its table was opened with; files of
other schemas are read by field id. A newer schema in a snapshot is one of:

- the same columns (options or comments changed): the stream goes on;
- columns were added: the stream stops before that snapshot, so that a restart gives them; with
  ``read.stream.schema-change`` = ``keep-columns`` it goes on without them;
- a column was renamed, dropped or given another type, or the keys changed: the stream stops, since
  rows before and after would differ in meaning.

On a restart the same rules compare the offset's schema with the table's; then added columns are
read.
"""

from __future__ import annotations

from tidelake.errors import UnsupportedError
from tidelake.types import TableSchema

KEEP_COLUMNS = "keep-columns"
SCHEMA_CHANGED = "stream_schema_changed"


def difference(old: TableSchema, new: TableSchema) -> tuple[list[str], list[str]]:
    """Describe the columns that were added, and the other changes, in a few words each.

    Examples
    --------
    >>> from tidelake.types import DataField, parse_type
    >>> one, two = (DataField(i, n, parse_type("INT")) for i, n in ((0, "a"), (1, "b")))
    >>> old, new = TableSchema(0, (one,), 0), TableSchema(1, (one, two), 1)
    >>> difference(old, new), difference(new, old)
    ((["'b'"], []), ([], ["'b' was dropped"]))
    """
    by_id = {field.id: field for field in new.fields}
    known = {field.id for field in old.fields}
    added = [f"'{field.name}'" for field in new.fields if field.id not in known]
    changed: list[str] = []
    for field in old.fields:
        now = by_id.get(field.id)
        if now is None:
            changed.append(f"'{field.name}' was dropped")
        elif now.name != field.name:
            changed.append(f"'{field.name}' was renamed to '{now.name}'")
        elif now.type != field.type:
            changed.append(f"'{field.name}' of type {field.type} became {now.type}")
    return added, changed


def check_running(
    own: TableSchema, newer: TableSchema, *, snapshot_id: int, policy: str, table: str
) -> None:
    """Check a newer schema that a snapshot was committed with.

    Parameters
    ----------
    policy : str
        The value of ``read.stream.schema-change``.

    Raises
    ------
    UnsupportedError
        The stream must stop before the snapshot.
    """
    added, changed = difference(own, newer)
    if changed:
        message = (
            f"Stream of table '{table}' stops before snapshot {snapshot_id}, because the table was"
            f" altered: {', '.join(changed)}. Begin with a new checkpoint, 'scan.mode' ="
            f" 'from-snapshot' and 'scan.snapshot-id' = '{snapshot_id}' to go on from there."
        )
    elif added and policy != KEEP_COLUMNS:
        message = (
            f"Stream of table '{table}' stops before snapshot {snapshot_id}, because columns were"
            f" added: {', '.join(added)}. Restart it to read them, or set"
            " 'read.stream.schema-change' to 'keep-columns' to go on without them."
        )
    else:
        return
    raise UnsupportedError(message, kind=SCHEMA_CHANGED, table=table, snapshot=snapshot_id)


def check_restart(old: TableSchema, own: TableSchema, *, snapshot_id: int, table: str) -> None:
    """Check that a stream which began with an older schema may go on with the table's.

    Raises
    ------
    UnsupportedError
        A column was renamed, dropped or given another type.
    """
    _, changed = difference(old, own)
    if changed:
        message = (
            f"Stream of table '{table}' cannot go on from its checkpoint, because the table was"
            f" altered since: {', '.join(changed)}. Begin with a new checkpoint, 'scan.mode' ="
            f" 'from-snapshot' and 'scan.snapshot-id' = '{snapshot_id}' to go on from there."
        )
        raise UnsupportedError(message, kind=SCHEMA_CHANGED, table=table, snapshot=snapshot_id)
