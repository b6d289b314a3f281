"""Which columns of a source the key of a target is made of.

A key of the target that is not the source's moves with any of them: an update of one is a delete
of the old row and a new row.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping


def key_columns(
    keys: Collection[str], computed_from: Mapping[str, frozenset[str]], names: Collection[str]
) -> frozenset[str]:
    """Give the columns of the source on which keys depend.

    Parameters
    ----------
    computed_from : mapping
        For each computed column the columns of the source on which it depends.
    names : collection of str
        The source's columns. A key that is neither one nor computed is of metadata.

    Examples
    --------
    >>> sorted(key_columns(("id", "day"), {"day": frozenset({"at"})}, ("id", "at", "n")))
    ['at', 'id']
    """
    own = frozenset(names)
    return frozenset().union(*(computed_from.get(key, own & {key}) for key in keys))


def whole_rows_statement(table: str) -> str:
    """Say the statement with which PostgreSQL logs whole old rows.

    Parameters
    ----------
    table : str
        With its database, ``shop.public.items``; of several the first is meant.

    Examples
    --------
    >>> whole_rows_statement("shop.public.items")
    'ALTER TABLE "public"."items" REPLICA IDENTITY FULL'
    """
    parts = table.split(", ")[0].split(".")[-2:]
    quoted = ".".join('"' + part.replace('"', '""') + '"' for part in parts)
    return f"ALTER TABLE {quoted} REPLICA IDENTITY FULL"
