"""The options that cluster a table's rows: ``clustering.columns`` and what goes with them.

With ``pk-clustering-override`` the files of a primary-key table are sorted by these columns instead
of the key (:func:`_override_refusal`).

Source: Paimon's ``SchemaValidation`` and ``CoreOptions`` (1.3.1), where columns that are not there
fail the first write, and columns of a table with a primary key or buckets have no effect. Buckets
are clustered as in Paimon 2, which asks for ``bucket-append-ordered = false``.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelake.errors import (
    InvalidInputError,
    TidelakeError,
    UnsupportedError,
    near_names,
    shortened,
)
from tidelake.merge.spec import DEDUPLICATE, FIRST_ROW
from tidelake.metadata.paths import POSTPONE_BUCKET
from tidelake.options import Options, clustering_columns, declared, file_order_columns
from tidelake.options.bucket_mode import BucketMode
from tidelake.store.append.curve import Strategy, check_curve_type
from tidelake.table.handle.arguments import known_columns
from tidelake.types import TableSchema

AUTO = "auto"
ZORDER_COLUMNS_MAX = 4
"""Of more columns ``auto`` takes Hilbert's curve."""


def strategy_of(given: str, *, columns_count: int, table: str) -> Strategy:
    """Take a strategy in any case.

    Raises
    ------
    InvalidInputError
        There is none of this name.

    Examples
    --------
    >>> strategy_of("AUTO", columns_count=2, table="db.t")
    <Strategy.ZORDER: 'zorder'>
    """
    strategy = given.strip().lower()
    known = [AUTO, *Strategy]
    if strategy not in known:
        message = (
            f"Order '{shortened(given)}' for table '{table}' is none of {', '.join(known)}."
            f"{near_names(strategy, known)}"
        )
        raise InvalidInputError(message, kind="bad_argument", table=table)
    if strategy != AUTO:
        return Strategy(strategy)
    if columns_count == 1:
        return Strategy.ORDER
    return Strategy.ZORDER if columns_count <= ZORDER_COLUMNS_MAX else Strategy.HILBERT


def check_clusterable(
    mode: BucketMode, schema: TableSchema, options: Options, *, table: str
) -> None:
    """Refuse tables whose rows have another order.

    Raises
    ------
    UnsupportedError
        The table has a primary key, or buckets that keep their order or cannot be clustered.
    """
    if mode is BucketMode.UNBUCKETED:
        return
    if schema.primary_keys:
        message = (
            f"Table '{table}' cannot be clustered: the files of a primary-key table are sorted by"
            " its key, and so merges and lookups find rows. Leave out the order, and"
            " 'clustering.columns'."
        )
        raise UnsupportedError(message, kind="sort_compact", table=table)
    if options.get(declared.BUCKET_APPEND_ORDERED):
        message = (
            f"Table '{table}' cannot be clustered: its buckets keep the order of arrival. Set"
            " 'bucket-append-ordered' = 'false' if no reader needs that order, or leave out the"
            " order, and 'clustering.columns'."
        )
        raise UnsupportedError(message, kind="sort_compact", table=table)
    if options.get(declared.CLUSTERING_INCREMENTAL) and options.get(
        declared.DELETION_VECTORS_ENABLED
    ):
        message = (
            f"Table '{table}' cannot have 'clustering.incremental' beside deletion vectors, since"
            " it has buckets: leave out one of them, or set 'bucket' = '-1'."
        )
        raise UnsupportedError(message, kind="sort_compact", table=table)


def check_cluster_columns(schema: TableSchema, names: Sequence[str], *, table: str) -> None:
    """Check the columns to cluster rows by.

    Raises
    ------
    InvalidInputError
        There is none, or one is a partition column.
    NotFoundError
        The table lacks one.
    UnsupportedError
        One has no order.
    """
    if not names:
        message = (
            f"No columns to cluster table '{table}' by: give by=['a', 'b'], or set its option"
            " 'clustering.columns'."
        )
        raise InvalidInputError(message, kind="cluster_column", table=table)
    known_columns(names, schema.field_names, table=table)
    inside = [name for name in names if name in schema.partition_keys]
    if inside:
        message = (
            f"Table '{table}' cannot be clustered by {', '.join(inside)}: the rows of a partition"
            " have one value in its columns. Name other columns."
        )
        raise InvalidInputError(message, kind="cluster_column", table=table)
    for name in names:
        check_curve_type(schema.field(name).type, column=name)


def check_clustering(
    schema: TableSchema,
    options: Options,
    *,
    table: str,
    before: tuple[TableSchema, Options] | None = None,
) -> None:
    """Check a table's own options.

    Parameters
    ----------
    before : (TableSchema, Options), optional
        Of an altered table: what was wrong there may stay so.

    Raises
    ------
    InvalidInputError, UnsupportedError
        They cannot be followed.
    """
    if before is not None:
        _check_order_kept(*before, schema, options, table)
    refusal = _refusal(schema, options, table)
    if refusal is None:
        return
    known = None if before is None else _refusal(*before, table)
    if known is None or known.message != refusal.message:
        raise refusal


def _refusal(schema: TableSchema, options: Options, table: str) -> TidelakeError | None:
    names = clustering_columns(options)
    overrides = options.get(declared.PK_CLUSTERING_OVERRIDE)
    if not names and not overrides and not options.get(declared.CLUSTERING_INCREMENTAL):
        return None
    missing = [name for name in names if name not in schema.field_names]
    if missing:
        advice = "set the option to other columns first, or unset it"
        if overrides:
            advice = "name columns that it has; those that order its files keep their names"
        message = (
            f"Option 'clustering.columns' of table '{table}' names {', '.join(missing)}, which is"
            f" no column of it: {advice}."
        )
        return InvalidInputError(message, kind="cluster_column", table=table)
    mode = BucketMode.of(
        options, has_primary_key=bool(schema.primary_keys), keys_may_move=schema.keys_may_move
    )
    if overrides:
        contradiction = _override_refusal(schema, options, table)
        if contradiction is not None:
            return contradiction
    try:
        if not overrides:
            check_clusterable(mode, schema, options, table=table)
        check_cluster_columns(schema, names, table=table)
    except (InvalidInputError, UnsupportedError) as error:
        return error
    return None


def _override_refusal(
    schema: TableSchema, options: Options, table: str
) -> InvalidInputError | None:
    """Why a table's files cannot be sorted by other columns than its key; None if they can.

    A marked row must be the older one, and no value may come from several rows: a compaction finds
    the older rows of its keys, but does not read their values.
    """
    key = declared.PK_CLUSTERING_OVERRIDE.key
    engine, producer = options.get(declared.MERGE_ENGINE), options.get(declared.CHANGELOG_PRODUCER)
    what: str | None = None
    if not schema.primary_keys:
        what, advice = "but no primary key", "its rows are clustered without the option"
    elif not clustering_columns(options):
        what, advice = "but no columns to sort by", "name them in 'clustering.columns'"
    elif engine not in (DEDUPLICATE, FIRST_ROW):
        what = f"with 'merge-engine' = '{engine}'"
        advice = f"take '{DEDUPLICATE}' or '{FIRST_ROW}'"
    elif engine == DEDUPLICATE and not options.get(declared.DELETION_VECTORS_ENABLED):
        what = "without deletion vectors, which mark the older rows of a key"
        advice = "set 'deletion-vectors.enabled' = 'true'"
    elif producer not in ("none", "input"):
        what, advice = f"with 'changelog-producer' = '{producer}'", "take 'none' or 'input'"
    elif options.get(declared.SEQUENCE_FIELD):
        what, advice = (
            "with 'sequence.field'",
            "leave that out: the row written last replaces others",
        )
    elif options.get(declared.RECORD_LEVEL_EXPIRE_TIME) is not None:
        what, advice = "with 'record-level.expire-time'", "leave one of them out"
    elif options.get(declared.CLUSTERING_INCREMENTAL):
        what, advice = "with 'clustering.incremental'", "leave that out"
    elif options.get(declared.BUCKET) == POSTPONE_BUCKET:
        what, advice = "with 'bucket' = '-2'", "take a number of buckets, or -1"
    if what is None:
        return None
    message = f"Table '{table}' has '{key}' = 'true' {what}: {advice}."
    return InvalidInputError(message, kind="bad_schema", table=table, option=key)


def _check_order_kept(
    old: TableSchema, known: Options, new: TableSchema, options: Options, table: str
) -> None:
    """Refuse to change the columns that files are sorted by, or their types.

    Raises
    ------
    UnsupportedError
        The files of before would have another order.
    """
    before = [old.field(name) for name in file_order_columns(known) if name in old.field_names]
    after = [new.field(name) for name in file_order_columns(options) if name in new.field_names]
    if [(f.id, f.type.as_nullable()) for f in before] == [
        (f.id, f.type.as_nullable()) for f in after
    ] or not (before and after):
        return
    message = (
        f"Table '{table}' keeps its 'clustering.columns' and their types, since its files are"
        f" sorted by them ('{declared.PK_CLUSTERING_OVERRIDE.key}'): make a new table."
    )
    raise UnsupportedError(message, kind="option_fixed", table=table)
