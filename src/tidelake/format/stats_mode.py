"""Chooses the statistics that manifests keep for each column of a file.

A column's own mode (``fields.<column>.stats-mode``) comes first. Keys and system columns always
keep bounds of 128 characters. The first ``metadata.stats-keep-first-n-columns`` other columns get
the table's or the level's mode, the rest none.

Source: Paimon's ``StatsCollectorFactories`` (1.3.1).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from tidelake.errors import InvalidInputError
from tidelake.format.system_fields import is_system_name
from tidelake.types import DataField

_SYSTEM_PREFIX_LENGTH = 128
_TRUNCATE = re.compile(r"truncate\(\s*(\d+)\s*\)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class StatsMode:
    """The statistics of a column: null count, bounds, and the length of text bounds."""

    counts: bool
    bounds: bool
    prefix_length: int | None = None

    @classmethod
    @lru_cache(maxsize=16)
    def parse(cls, text: str, *, option: str = "metadata.stats-mode") -> StatsMode:
        """Parse a value of ``metadata.stats-mode`` or of a similar option.

        Raises
        ------
        InvalidInputError
            The text is not a mode.

        Examples
        --------
        >>> StatsMode.parse("truncate(16)")
        StatsMode(counts=True, bounds=True, prefix_length=16)
        """
        match text.strip().lower():
            case "none":
                return cls(counts=False, bounds=False)
            case "counts":
                return cls(counts=True, bounds=False)
            case "full":
                return cls(counts=True, bounds=True)
        match = _TRUNCATE.fullmatch(text.strip())
        if match is None or int(match[1]) == 0:
            message = (
                f"Option '{option}' is '{text}' but must be none, counts, full or"
                " truncate(N) with N above 0."
            )
            raise InvalidInputError(message, kind="option_value", option=option)
        return cls(counts=True, bounds=True, prefix_length=int(match[1]))


NO_STATS = StatsMode(counts=False, bounds=False)
_SYSTEM = StatsMode(counts=True, bounds=True, prefix_length=_SYSTEM_PREFIX_LENGTH)


@dataclass(frozen=True, slots=True)
class StatsRule:
    """The choice of each column's mode, by a table's options.

    Parameters
    ----------
    columns_count_max : int
        The most columns with statistics; all, if it is negative.
    """

    mode: StatsMode
    columns: Mapping[str, StatsMode] = field(default_factory=dict)
    columns_count_max: int = -1

    def modes(
        self, fields: Sequence[DataField], *, keys: frozenset[str] = frozenset()
    ) -> tuple[StatsMode, ...]:
        """Return the mode of each column of a file.

        Parameters
        ----------
        fields : sequence of DataField
            The file's columns in order.
        keys : frozenset of str
            The key columns of a thin file, which holds them once, among the table's columns.

        Examples
        --------
        >>> from tidelake.types import parse_type
        >>> fields = [DataField(i, name, parse_type("INT")) for i, name in enumerate("abc")]
        >>> rule = StatsRule(StatsMode.parse("full"), {"b": NO_STATS}, columns_count_max=2)
        >>> [mode.bounds for mode in rule.modes(fields)]
        [True, False, False]
        """
        modes = []
        count = 0
        for column in fields:
            own = self.columns.get(column.name)
            if own is None and (is_system_name(column.name) or column.name in keys):
                modes.append(_SYSTEM)
                continue
            if own is None:
                beyond = 0 <= self.columns_count_max <= count
                own = NO_STATS if beyond else self.mode
            modes.append(own)
            count += 1
        return tuple(modes)
