"""The table that a job makes for its sources.

1. Its columns are those of the source in their order, then computed columns, metadata columns and
   order columns.
2. Its primary key is the one asked for, else the source's; its partition keys are those asked for.
   In a job of a database a table that lacks a column of the keys asked for takes the source's key,
   and no partitions.
   A number of buckets is for tables with a primary key.
3. With order columns and a primary key, they are its ``sequence.field``, unless the options name
   another one or keep the first row.
4. The columns on which its primary key depends come with a delete, and with an update.

Source: Paimon's ``CdcActionCommonUtils.buildPaimonSchema``. ``Catalog.create_table`` checks the
rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tidelake.cdc.evolution.key_columns import key_columns, whole_rows_statement
from tidelake.cdc.evolution.merged_table import MergedTable
from tidelake.cdc.evolution.target_engine import engine_notes, engine_problem
from tidelake.errors import InvalidInputError
from tidelake.types import DataField

SEQUENCE_FIELD, MERGE_ENGINE = "sequence.field", "merge-engine"
_KEYED_OPTIONS = frozenset({MERGE_ENGINE, SEQUENCE_FIELD, "changelog-producer", "ignore-delete"})
"""Options that tables without a key refuse; those of a job are for all its tables."""
BUCKET, BUCKET_KEY = "bucket", "bucket-key"


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """What a user asks of a target.

    Parameters
    ----------
    added : tuple of DataField
        Computed, then metadata columns.
    order : tuple of DataField
        Order columns; empty without.
    computed_from : mapping
        For each computed column the columns of the source on which it depends.
    keys_from_source : bool
        Whether the source's key is taken where none is asked for.
    requires_key : bool
        Whether a table without a primary key is refused.
    is_strict : bool
        Whether a key that is asked for must exist: in a job of one table.
    """

    partition_keys: tuple[str, ...] = ()
    primary_keys: tuple[str, ...] = ()
    table_conf: Mapping[str, str] = field(default_factory=dict)
    added: tuple[DataField, ...] = ()
    order: tuple[DataField, ...] = ()
    computed_from: Mapping[str, frozenset[str]] = field(default_factory=dict)
    keys_from_source: bool = True
    requires_key: bool = True
    is_strict: bool = True
    case_sensitive: bool = True


@dataclass(frozen=True, slots=True)
class TargetDefinition:
    """The definition of a target, for ``Catalog.create_table``.

    Parameters
    ----------
    identifier : str
        ``"database.table"``.
    notes : tuple of str
        What was asked for and is not so, a sentence each.
    sends_whole_rows : bool
        Whether a change of the source has all values of its row.
    """

    identifier: str
    fields: tuple[DataField, ...]
    primary_keys: tuple[str, ...]
    partition_keys: tuple[str, ...]
    options: Mapping[str, str]
    comment: str | None = None
    notes: tuple[str, ...] = ()
    sends_whole_rows: bool = True


def new_table(identifier: str, source: MergedTable, options: TargetOptions) -> TargetDefinition:
    """Define the target of a source.

    Raises
    ------
    InvalidInputError
        A name is there twice, a key does not exist, or keys and partitions do not fit.
    """
    fields = (*source.fields, *options.added, *options.order)
    names = [f.name for f in fields]
    _check_once(identifier, names)
    notes: list[str] = []
    primary_keys = _primary_keys(identifier, source, options, names, notes)
    partition_keys = _cased(options.partition_keys, options)
    if not set(partition_keys) <= set(names):
        _refuse_missing(identifier, "partition", partition_keys, names, options, notes)
        partition_keys = ()
    table_options = dict(options.table_conf)
    if not primary_keys and _numbers_buckets(table_options):
        bucket = table_options.pop(BUCKET)
        notes.append(f"Table '{identifier}' has no primary key: 'bucket' {bucket} is not for it.")
    if not primary_keys:
        for key in _KEYED_OPTIONS & table_options.keys():
            value = table_options.pop(key)
            notes.append(f"Table '{identifier}' has no primary key: '{key}' {value} is not for it.")
    first_row = table_options.get(MERGE_ENGINE) == "first-row"
    if options.order and primary_keys and not first_row:
        table_options.setdefault(SEQUENCE_FIELD, ",".join(f.name for f in options.order))
    _check_partitions(identifier, primary_keys, partition_keys, table_options)
    _check_sent(identifier, primary_keys, source, options)
    if primary_keys:
        _check_engine(identifier, table_options, source)
        notes += engine_notes(identifier, table_options)
    return TargetDefinition(
        identifier,
        tuple(replace(f, id=i) for i, f in enumerate(fields)),
        primary_keys,
        partition_keys,
        table_options,
        source.comment,
        tuple(notes),
        source.sends_whole_rows,
    )


def _numbers_buckets(options: Mapping[str, str]) -> bool:
    """Whether rows need a key to find their bucket."""
    return options.get(BUCKET, "-1").strip() != "-1" and BUCKET_KEY not in options


def _check_engine(identifier: str, options: Mapping[str, str], source: MergedTable) -> None:
    problem = engine_problem(options, sends_whole_rows=source.sends_whole_rows)
    if problem is not None:
        message = f"Table '{identifier}': {problem}."
        raise InvalidInputError(message, kind="cdc_target_engine", table=identifier)


def _cased(names: Sequence[str], options: TargetOptions) -> tuple[str, ...]:
    return tuple(name if options.case_sensitive else name.lower() for name in names)


def _check_once(identifier: str, names: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        message = (
            f"Table '{identifier}' would have column '{twice[0]}' twice: name the computed or"
            " metadata column otherwise, or give metadata columns a prefix."
        )
        raise InvalidInputError(message, kind="cdc_column_twice", table=identifier)


def _primary_keys(
    identifier: str,
    source: MergedTable,
    options: TargetOptions,
    names: Sequence[str],
    notes: list[str],
) -> tuple[str, ...]:
    asked = _cased(options.primary_keys, options)
    if asked and set(asked) <= set(names):
        return asked
    if asked:
        _refuse_missing(identifier, "primary", asked, names, options, notes)
    if options.keys_from_source and source.keys:
        return source.keys
    if options.requires_key and options.keys_from_source:
        message = (
            f"Table '{identifier}' has no primary key: its source ({source.name}) has none, or"
            " several with different ones. Give one with --primary_keys, leave the table out, or"
            " append its rows with --keyless append."
        )
        raise InvalidInputError(message, kind="cdc_no_key", table=identifier)
    return ()


def _refuse_missing(
    identifier: str,
    what: str,
    asked: Sequence[str],
    names: Sequence[str],
    options: TargetOptions,
    notes: list[str],
) -> None:
    missing = ", ".join(f"'{name}'" for name in asked if name not in names)
    said = f"Table '{identifier}' has no column {missing} of the {what} keys"
    if options.is_strict:
        message = f"{said}: name some of {', '.join(names)}."
        raise InvalidInputError(message, kind="cdc_key_missing", table=identifier)
    kept = "the source's are taken" if what == "primary" else "it is not partitioned"
    notes.append(f"{said}: {kept}.")


def _check_partitions(
    identifier: str,
    primary_keys: Sequence[str],
    partition_keys: Sequence[str],
    table_options: Mapping[str, str],
) -> None:
    if not primary_keys or not partition_keys:
        return
    keys = ", ".join(primary_keys)
    if set(primary_keys) <= set(partition_keys):
        message = (
            f"The primary key ({keys}) of table '{identifier}' has no column besides the partition"
            " keys: each partition would have one row. Partition by fewer columns."
        )
        raise InvalidInputError(message, kind="cdc_partition_keys", table=identifier)
    outside = next((name for name in partition_keys if name not in primary_keys), None)
    if outside is not None and SEQUENCE_FIELD in table_options:
        message = (
            f"The primary key ({keys}) of table '{identifier}' lacks the partition key '{outside}',"
            " so that a key may change its partition, where 'sequence.field' has no effect: add it"
            " with --primary_keys, or leave order columns out with --sequence none."
        )
        raise InvalidInputError(message, kind="cdc_partition_keys", table=identifier)


def _check_sent(
    identifier: str, keys: Sequence[str], source: MergedTable, options: TargetOptions
) -> None:
    """Refuse keys whose old values the source does not send.

    A partition outside of the primary key does not count: the table finds a key's old partition.
    Metadata columns are the same for all rows of a table, but for times, which nobody takes as key.
    """
    names = [f.name for f in source.fields]
    for key in keys:
        read = key_columns((key,), options.computed_from, names)
        if read <= source.sent:
            continue
        outside = ", ".join(f"'{name}'" for name in sorted(read - source.sent))
        message = (
            f"The key '{key}' of table '{identifier}' depends on {outside}, of which"
            f" {source.name} sends no old value, so that an old row could not be deleted. Have it"
            f" send whole old rows (PostgreSQL: {whole_rows_statement(source.name)}), or take"
            " other keys."
        )
        raise InvalidInputError(message, kind="cdc_key_unsent", table=identifier, column=key)
