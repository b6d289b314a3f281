"""Changes of a table's options that ALTER may make.

Source: Paimon's ``SchemaManager`` (1.3.1): ``checkAlterTableOption``, ``checkResetTableOption``.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelake.errors import InvalidInputError, UnsupportedError
from tidelake.metadata.paths import POSTPONE_BUCKET
from tidelake.options import Options, declared, merges_by_lookup
from tidelake.options.bucket_mode import DYNAMIC
from tidelake.options.declared import BY_KEY

# fixed for one use, where files of both kinds would mix; later uses may all change them
ALTERABLE = frozenset(
    {
        declared.BUCKET.key,  # has its own rules
        declared.FIELDS_DEFAULT_AGGREGATE_FUNCTION.key,
        declared.SEQUENCE_FIELD.key,
        declared.SEQUENCE_FIELD_SORT_ORDER.key,
    }
)


def check_option_change(key: str, old: str | None, new: str | None, *, table: str) -> None:
    """Refuse to change an option that is fixed once the table has a snapshot.

    Parameters
    ----------
    old, new : str or None
        Its text before and after; None where it is not set.

    Raises
    ------
    UnsupportedError
        The option is fixed.
    """
    if old == new:
        return
    option = BY_KEY.get(key)
    if option is None:
        return
    if not option.mutable and key not in ALTERABLE:
        message = (
            f"Option '{key}' of table '{table}' defines how files are laid out or merged and is"
            " fixed since the first write to the table: make a new table with it."
        )
        raise UnsupportedError(message, kind="option_fixed", table=table, option=key)
    if key == declared.BUCKET.key:
        _check_buckets(old, new, table)


def check_lookup_kept(old: Mapping[str, str], new: Mapping[str, str], *, table: str) -> None:
    """Refuse to change whether a row above level 0 counts for older rows of its key.

    Rows would count twice, or not at all.

    Raises
    ------
    UnsupportedError
        It would.
    """
    before, after = (merges_by_lookup(Options.parse(one, table=table)) for one in (old, new))
    if before == after:
        return
    producer = declared.CHANGELOG_PRODUCER.key
    message = (
        f"Table '{table}' cannot change '{producer}' {'from' if before else 'to'} 'lookup' under"
        f" 'merge-engine' = '{old[declared.MERGE_ENGINE.key]}' once it was written to: older values"
        " of its files would count twice or be lost. Write the rows into a new table."
    )
    raise UnsupportedError(message, kind="option_fixed", table=table, option=producer)


def _check_buckets(old: str | None, new: str | None, table: str) -> None:
    before = declared.BUCKET.default if old is None else int(old)
    why = ""
    if new is None:
        why = "cannot be removed from a table that was written to"
    elif not new.lstrip("-").isdecimal():
        message = f"Option 'bucket' of table '{table}' is a number, not '{new}'."
        raise InvalidInputError(message, kind="option_value", table=table, option="bucket")
    elif before == DYNAMIC:
        why = "cannot be changed from -1, because its files have no fixed buckets"
    elif before == POSTPONE_BUCKET:
        why = "cannot be changed from -2: each partition has its own number"
    elif int(new) == DYNAMIC:
        why = "cannot become -1, because its files are in fixed buckets"
    if why:
        message = f"Option 'bucket' of table '{table}' {why}: make a new table."
        raise UnsupportedError(message, kind="option_fixed", table=table, option="bucket")
