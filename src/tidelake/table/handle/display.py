"""Text and HTML of a table and its history, for terminals and notebooks.

A table that cannot be read still shows. HTML escapes all user text and cuts long values.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from tidelake.errors import TidelakeError, shortened
from tidelake.options import declared
from tidelake.table.handle.handle import TableHandle

HTML_ROWS_MAX = 100
CELL_CHARACTERS_MAX = 200
_LEFT = "style='text-align:left'"


def facts(handle: TableHandle) -> list[tuple[str, str]]:
    """The facts shown of a table: pairs of a name and a text."""
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
    lines.append(("location", handle.uri))
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
    columns = [[f.name, str(f.type), f.description or ""] for f in handle.schema.fields]
    return facts_html(handle.identifier, facts(handle)) + rows_html(
        "", ["column", "type", "comment"], columns
    )


def facts_html(title: str, lines: Iterable[tuple[str, str]]) -> str:
    """Pairs of a name and a text, as HTML.

    Examples
    --------
    >>> facts_html("a<b", [])
    '<b>a&lt;b</b><table></table>'
    """
    rows = "".join(
        f"<tr><th {_LEFT}>{html.escape(name)}</th><td {_LEFT}>{html.escape(text)}</td></tr>"
        for name, text in lines
    )
    return f"<b>{html.escape(title)}</b><table>{rows}</table>"


def rows_html(title: str, names: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """The first of some rows as HTML, under their column names."""
    head = "".join(f"<th {_LEFT}>{html.escape(name)}</th>" for name in names)
    body = "".join(
        "<tr>" + "".join(f"<td>{_cell_html(value)}</td>" for value in row) + "</tr>"
        for row in rows[:HTML_ROWS_MAX]
    )
    more = len(rows) - HTML_ROWS_MAX
    end = f"and {more:,} more" if more > 0 else ""
    first = f"<b>{html.escape(title)}</b>" if title else ""
    return f"{first}<table><tr>{head}</tr>{body}</table>{end}"


def _cell_html(value: object) -> str:
    return html.escape(shortened(str(value), CELL_CHARACTERS_MAX))


class History:
    """Snapshots of a table, oldest first: an Arrow table that a notebook can show.

    It has all members of ``pyarrow.Table`` and exports an Arrow stream.
    """

    def __init__(self, identifier: str, rows: pa.Table) -> None:
        self.identifier = identifier
        self._rows = rows

    def to_arrow(self) -> pa.Table:
        """The rows."""
        return self._rows

    def __getattr__(self, name: str) -> Any:
        if name == "_rows":  # not set yet, as while unpickling
            raise AttributeError(name)
        return getattr(self._rows, name)

    def __getitem__(self, key: int | str) -> Any:
        return self._rows[key]

    def __len__(self) -> int:
        return len(self._rows)

    def __eq__(self, other: object) -> bool:
        rows = other._rows if isinstance(other, History) else other
        return isinstance(rows, pa.Table) and self._rows.equals(rows)

    __hash__ = None  # type: ignore[assignment]

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._rows.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return repr(self._rows)

    def _repr_html_(self) -> str:
        first = self._rows.slice(0, HTML_ROWS_MAX).to_pylist()
        rows = [list(row.values()) for row in first]
        rows += [[]] * (len(self._rows) - len(rows))
        return rows_html(self.identifier, self._rows.column_names, rows)
