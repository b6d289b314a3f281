"""The name of a target from that of a source's table. Source: Paimon's ``TableNameConverter``.

1. A mapping from the table's name, in any case, gives the name as it is.
2. Else prefix and suffix of the table's database go around it, or of the schema in PostgreSQL.
3. Where the database has none, the general ones do.

If shards are not merged, the table's name is ``database_table`` from the begin.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tidelake.cdc.routing.name_filter import shard_of
from tidelake.cdc.source.source_table import SourceName


@dataclass(frozen=True, slots=True)
class TableNames:
    """How names are made.

    Parameters
    ----------
    case_sensitive : bool
        If not, names are written in lower case; prefixes and suffixes stay as they are.
    merge_shards : bool
        Whether tables of one name from several databases go to one target.
    db_prefixes, db_suffixes : mapping
        By the name of a database, in any case.
    mapping : mapping
        Names of targets by those of sources, in any case.

    Examples
    --------
    >>> names = TableNames(prefix="ods_", mapping={"Items": "wares"})
    >>> [names.target(SourceName("shop", "", table)) for table in ("orders", "ITEMS")]
    ['ods_orders', 'wares']
    """

    case_sensitive: bool = True
    merge_shards: bool = True
    prefix: str = ""
    suffix: str = ""
    db_prefixes: Mapping[str, str] = field(default_factory=dict)
    db_suffixes: Mapping[str, str] = field(default_factory=dict)
    mapping: Mapping[str, str] = field(default_factory=dict)

    def target(self, name: SourceName) -> str:
        """Name the target of a table, without its database."""
        shard = shard_of(name)
        table = self._raw(name)
        mapped = _lower(self.mapping).get(table.lower())
        if mapped is not None:
            return self._cased(mapped)
        prefix = _lower(self.db_prefixes).get(shard.lower(), self.prefix)
        suffix = _lower(self.db_suffixes).get(shard.lower(), self.suffix)
        return prefix + self._cased(table) + suffix

    def is_mapped(self, name: SourceName) -> bool:
        """Whether the mapping names a table."""
        return self._raw(name).lower() in _lower(self.mapping)

    def _raw(self, name: SourceName) -> str:
        return name.table if self.merge_shards else f"{shard_of(name)}_{name.table}"

    def _cased(self, text: str) -> str:
        return text if self.case_sensitive else text.lower()


def _lower(names: Mapping[str, str]) -> dict[str, str]:
    return {key.lower(): value for key, value in names.items()}
