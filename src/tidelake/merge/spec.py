"""The rules that choose a key's row: key, user sequence, engine and its options, as one value.

Source: Paimon 1.3.1 ``CoreOptions`` and ``UserDefinedSeqComparator``; the rules are in
``docs/format/merge.md``. A spec names columns of the batches it is used on, so one spec serves
the write buffer, compaction and every reader.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidelake.errors import UnsupportedError
from tidelake.merge.column_rules import ColumnRules, SequenceGroup, column_rules
from tidelake.merge.functions import NEWEST, ColumnFunction
from tidelake.options import Options, merges_by_lookup
from tidelake.options.declared import (
    AGGREGATION_REMOVE_RECORD_ON_DELETE,
    IGNORE_DELETE,
    MERGE_ENGINE,
    PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE,
    PK_CLUSTERING_OVERRIDE,
    SEQUENCE_FIELD,
    SEQUENCE_FIELD_SORT_ORDER,
)
from tidelake.types import DataType, TableSchema

DEDUPLICATE = "deduplicate"
PARTIAL_UPDATE = "partial-update"
AGGREGATION = "aggregation"
FIRST_ROW = "first-row"
LOOKUP = "lookup"
ENGINES = frozenset({DEDUPLICATE, PARTIAL_UPDATE, AGGREGATION, FIRST_ROW})


@dataclass(frozen=True, slots=True)
class MergeSpec:
    """How rows of one key are merged. Picklable.

    Parameters
    ----------
    key_columns : tuple of str
        Names of the key columns in the batches, in key order.
    sequence_columns : tuple of str
        The ``sequence.field`` columns: they compare before the sequence number, null smallest.
    sequence_descending : bool
        Whether the smaller user sequence wins (null still loses against every value).
    engine : str
        The merge engine: ``"deduplicate"``, ``"partial-update"``, ``"aggregation"`` or
        ``"first-row"``.
    ignore_delete : bool
        Whether rows that retract (-U, -D) are left out of a merge.
    remove_on_delete : bool
        Whether a -D removes the row of its key (partial-update, aggregation).
    groups : tuple of SequenceGroup
        Columns that change together, by their own sequences (partial-update).
    by_lookup : bool
        Whether compactions look keys up in higher levels and merge the rows found, which also
        stay there. So of a key's rows from level 1 on only that of the lowest level counts.
    clustered : bool
        Whether files above level 0 are in the order of other columns than the key.

    Raises
    ------
    UnsupportedError
        An engine that this version does not cover.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> MergeSpec(("k",), (parse_type("INT"),)).engine
    'deduplicate'
    """

    key_columns: tuple[str, ...]
    key_types: tuple[DataType, ...]
    sequence_columns: tuple[str, ...] = ()
    sequence_types: tuple[DataType, ...] = ()
    sequence_descending: bool = False
    engine: str = DEDUPLICATE
    ignore_delete: bool = False
    remove_on_delete: bool = False
    functions: tuple[ColumnFunction, ...] = ()
    groups: tuple[SequenceGroup, ...] = ()
    not_null: frozenset[str] = frozenset()
    by_lookup: bool = False
    clustered: bool = False

    def __post_init__(self) -> None:
        assert self.key_columns, "a merge needs a key"
        assert len(self.key_columns) == len(self.key_types), "one type per key column"
        assert len(self.sequence_columns) == len(self.sequence_types), "one type per sequence field"
        if self.engine not in ENGINES:
            message = (
                f"Merge engine '{self.engine}' is not covered by this version;"
                f" use 'merge-engine' = '{DEDUPLICATE}'."
            )
            raise UnsupportedError(message, kind="merge_engine", option=MERGE_ENGINE.key)

    @classmethod
    def of(cls, schema: TableSchema, options: Options) -> MergeSpec:
        """Give the spec of a primary-key table, over the table's own column names.

        Raises
        ------
        InvalidInputError, UnsupportedError
            The table's merge engine is not covered, or the column options do not fit the columns or
            each other.
        NotFoundError
            ``sequence.field`` names a missing column.
        """
        engine = options.get(MERGE_ENGINE)
        removes = {
            PARTIAL_UPDATE: PARTIAL_UPDATE_REMOVE_RECORD_ON_DELETE,
            AGGREGATION: AGGREGATION_REMOVE_RECORD_ON_DELETE,
        }
        rules = ColumnRules()
        if engine in removes:
            rules = column_rules(schema, options, partial=engine == PARTIAL_UPDATE)
        keys = schema.trimmed_primary_keys
        text = options.get(SEQUENCE_FIELD)
        sequence = tuple(part.strip() for part in text.split(",")) if text else ()
        return cls(
            key_columns=keys,
            key_types=tuple(schema.field(k).type for k in keys),
            sequence_columns=sequence,
            sequence_types=tuple(schema.field(c).type for c in sequence),
            sequence_descending=options.get(SEQUENCE_FIELD_SORT_ORDER) == "descending",
            engine=engine,
            ignore_delete=options.get(IGNORE_DELETE),
            remove_on_delete=engine in removes and options.get(removes[engine]),
            functions=rules.functions,
            groups=rules.groups,
            not_null=frozenset(f.name for f in schema.fields if not f.type.nullable),
            by_lookup=merges_by_lookup(options),
            clustered=options.get(PK_CLUSTERING_OVERRIDE),
        )

    @property
    def looks_at_levels(self) -> bool:
        """Whether the level of a key's rows decides between them."""
        return self.by_lookup or self.engine == FIRST_ROW

    @property
    def combines(self) -> bool:
        """Whether a merged row may combine the values of several rows."""
        return self.engine in (PARTIAL_UPDATE, AGGREGATION)

    @property
    def deletes_need_all(self) -> bool:
        """Whether rows that retract must meet all older rows of their keys in one merge.

        One merged row cannot express both the removal or retraction of older values and the later
        ones. Under partial-update, rows that only retract merge into one that retracts: its sum is
        what they left of nothing, and it would be retracted in turn. Under ``sequence.field`` the
        merged row is ordered by the values that retractions left in those columns, null under
        aggregation: it would no longer be newer than the older rows. Those columns have a function
        too, so sums alone are no exception.
        """
        if not self.combines:
            return False
        if self.remove_on_delete or any(group.removes for group in self.groups):
            return True
        taken_from = [f for f in self.functions if f.retracts and not f.ignore_retract]
        if self.engine == AGGREGATION:
            ordered = bool(self.sequence_columns)
            return any(f.forgets_retractions or (ordered and f.name != "sum") for f in taken_from)
        members = {name for group in self.groups for name in group.members}
        return any(
            self.sequence_columns or f.name != NEWEST for f in taken_from if f.column in members
        )

    def with_needed(self, columns: Iterable[str]) -> tuple[str, ...]:
        """Return the columns, preceded by those that their merge needs.

        Examples
        --------
        >>> from tidelake.types import parse_type
        >>> MergeSpec(("k",), (parse_type("INT"),)).with_needed(["a"])
        ('k', 'a')
        """
        wanted = tuple(columns)
        of_groups = [
            name
            for group in self.groups
            if group.removes or not group.columns_and_members.isdisjoint(wanted)
            for name in group.columns
        ]
        names = (*self.key_columns, *self.sequence_columns, *of_groups, *wanted)
        return tuple(dict.fromkeys(names))
