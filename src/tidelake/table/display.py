"""How a table shows itself, in a terminal and in a notebook.

A table that cannot be read still shows.
"""

from __future__ import annotations

import html
from datetime import UTC, datetime

from tidelake.errors import TidelakeError
from tidelake.options import declared
from tidelake.table.handle import TableHandle

__all__ = ["describe", "describe_html"]


def facts(handle: TableHandle) -> list[tuple[str, str]]:
    """What there is to say of a table: pairs of a name and a text."""
    schema = handle.schema
    kind = "primary-key table" if schema.primary_keys else "append table"
    lines = [("kind", kind)]
    if schema.primary_keys:
        lines.append(("primary key", ", ".join(schema.primary_keys)))
    if schema.partition_keys:
        lines.append(("partitioned by", ", ".join(schema.partition_keys)))
    buckets = handle.options.get(declared.BUCKET)
    if buckets > 0:
        lines.append(("buckets", f"{buckets} by {', '.join(schema.bucket_keys)}"))
    lines.append(("snapshot", _snapshot_text(handle)))
    lines.append(("location", handle.paths.location))
    if schema.comment:
        lines.append(("comment", schema.comment))
    return lines


def _snapshot_text(handle: TableHandle) -> str:
    try:
        snapshot = handle.snapshots.latest()
    except TidelakeError as error:
        return f"cannot be read: {error}"
    if snapshot is None:
        return "none yet"
    time = datetime.fromtimestamp(snapshot.time_ms / 1000, tz=UTC)
    return (
        f"{snapshot.id} ({snapshot.commit_kind}, {time:%Y-%m-%d %H:%M:%S} UTC),"
        f" {snapshot.total_record_count:,} stored rows"
    )


def describe(handle: TableHandle) -> str:
    """A table in text."""
    keys = frozenset(handle.schema.primary_keys)
    lines = [f"Table {handle.identifier}"]
    lines += [f"  {name:<15} {text}" for name, text in facts(handle)]
    width = max((len(f.name) for f in handle.schema.fields), default=0)
    lines.append("  columns")
    for field in handle.schema.fields:
        mark = "  (key)" if field.name in keys else ""
        lines.append(f"    {field.name:<{width}}  {field.type}{mark}")
    return "\n".join(lines)


def describe_html(handle: TableHandle) -> str:
    """A table for a notebook."""
    left = "style='text-align:left'"
    head = "".join(
        f"<tr><th {left}>{html.escape(name)}</th><td {left}>{html.escape(text)}</td></tr>"
        for name, text in facts(handle)
    )
    columns = "".join(
        f"<tr><td {left}>{html.escape(f.name)}</td><td {left}>{html.escape(str(f.type))}</td>"
        f"<td {left}>{html.escape(f.description or '')}</td></tr>"
        for f in handle.schema.fields
    )
    return (
        f"<b>{html.escape(handle.identifier)}</b><table>{head}</table>"
        f"<table><tr><th>column</th><th>type</th><th>comment</th></tr>{columns}</table>"
    )
