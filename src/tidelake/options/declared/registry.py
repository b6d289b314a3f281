"""All declared options in one list, by theme and by key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType, ModuleType
from typing import Any

from tidelake.options.declared import (
    commit,
    compaction,
    files,
    iceberg,
    layout,
    merge,
    partition,
    scan,
    stream,
    write,
)
from tidelake.options.option import Option

__all__ = ["BY_KEY", "THEMES"]

_MODULES = (layout, files, write, merge, compaction, commit, scan, stream, partition, iceberg)


def _named(theme: ModuleType) -> Iterator[Option[Any]]:
    return (value for value in vars(theme).values() if isinstance(value, Option))


THEMES: Mapping[str, tuple[Option[Any], ...]] = MappingProxyType(
    {m.TITLE: (*_named(m), *m.UNREAD) for m in _MODULES}
)
"""The options of each theme: first those that code reads, then the others."""

BY_KEY: Mapping[str, Option[Any]] = MappingProxyType(
    {option.key: option for options in THEMES.values() for option in options}
)
"""Every option of Paimon 1.3.1 by its key."""
