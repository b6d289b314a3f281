"""Checks before a write that a table's engine can take rows that retract (-U, -D).

Paimon notices it only in the merge, perhaps long after the write: a file then holds rows that
nobody can read. Here the whole write is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelake.errors import InvalidInputError
from tidelake.merge.column_rules import SequenceGroup
from tidelake.merge.engines.partial_update import no_delete
from tidelake.merge.functions import ColumnFunction, no_retraction
from tidelake.merge.spec import AGGREGATION, FIRST_ROW, PARTIAL_UPDATE, MergeSpec
from tidelake.options.declared import IGNORE_DELETE
from tidelake.types.row_kind import RowKind


def check_retractions(
    spec: MergeSpec,
    rows: pa.RecordBatch | pa.Table,
    kinds: npt.NDArray[np.int8],
    *,
    table: str,
) -> None:
    """Refuse kinds that the engine cannot take.

    Parameters
    ----------
    rows : RecordBatch or Table [n]
        The table's columns.
    kinds : int8 array [n]
        Row kinds.

    Raises
    ------
    InvalidInputError
        The message names the option that would define the effect of such a row.
    """
    if spec.ignore_delete:
        return
    retracts = (kinds & 1) != 0
    if spec.engine == AGGREGATION and spec.remove_on_delete:
        retracts &= kinds != RowKind.DELETE
    if not retracts.any():
        return
    if spec.engine == PARTIAL_UPDATE and not (spec.remove_on_delete or spec.groups):
        raise _at(table, no_delete())
    if spec.engine == FIRST_ROW:
        message = (
            "merge engine 'first-row' keeps the first row of a key and cannot retract one. Leave"
            " such rows (kinds -U and -D) out, or set 'ignore-delete' = 'true' to leave them out"
            " automatically."
        )
        raise _at(table, InvalidInputError(message, kind="no_retraction", option=IGNORE_DELETE.key))
    functions = [f for f in spec.functions if not f.retracts]
    if spec.engine == AGGREGATION and functions:
        raise _at(table, no_retraction(functions[0]))
    if spec.engine == PARTIAL_UPDATE and functions:
        _check_groups(spec, rows, kinds, functions, table=table)


def _check_groups(
    spec: MergeSpec,
    rows: pa.RecordBatch | pa.Table,
    kinds: npt.NDArray[np.int8],
    functions: Sequence[ColumnFunction],
    *,
    table: str,
) -> None:
    """Refuse rows that retract from functions of groups that cannot take them.

    A row without a sequence does not change its group. A -D with the sequence of a group that
    lets it remove the row may pass: only the merge knows whether it is too late for that.
    """
    retracts = (kinds & 1) != 0
    for group in spec.groups:
        if group.removes:
            retracts &= (kinds != RowKind.DELETE) | ~_has_sequence(rows, group)
    for group in spec.groups:
        own = [function for function in functions if function.column in group.members]
        if own and (retracts & _has_sequence(rows, group)).any():
            raise _at(table, no_retraction(own[0]))


def _has_sequence(rows: pa.RecordBatch | pa.Table, group: SequenceGroup) -> npt.NDArray[np.bool_]:
    found = np.zeros(rows.num_rows, np.bool_)
    for name in group.columns:
        found |= np.asarray(rows.column(name).is_valid())
    return found


def deletes_remove(spec: MergeSpec) -> bool:
    """Whether a -D row with a key's current values removes the key's row."""
    if spec.ignore_delete:
        return False
    if spec.engine == FIRST_ROW:
        return False
    return not spec.combines or spec.remove_on_delete or any(g.removes for g in spec.groups)


def _at(table: str, error: InvalidInputError) -> InvalidInputError:
    context = {"table": table, **error.context}
    return InvalidInputError(f"Table '{table}': {error.message}", kind=error.kind, **context)
