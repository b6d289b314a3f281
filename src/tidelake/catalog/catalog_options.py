"""Options of a catalog, by Paimon's names: which kind it is, and what that kind needs.

``{"type": "jdbc", "uri": "jdbc:sqlite:/c.db"}`` in Python and ``'type' = 'paimon', 'metastore' =
'jdbc', 'uri' = ...`` in SQL say the same: ``type`` is ``paimon`` beside a ``metastore``, or the
kind itself. A key that the kind does not know is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from tidelake.catalog.metastore import Metastore
from tidelake.errors import InvalidInputError, near_names, shortened
from tidelake.fileio import FileIO
from tidelake.options import Option, option_texts, parse_value
from tidelake.telemetry import Env

TYPE, METASTORE, WAREHOUSE = "type", "metastore", "warehouse"
FILESYSTEM = "filesystem"
OWN_TYPES = frozenset({"paimon", "tidelake"})
WITHOUT_EFFECT = frozenset(
    {
        "cache-enabled",
        "cache.expire-after-access",
        "cache.expire-after-write",
        "cache.manifest.max-memory",
        "cache.manifest.small-file-memory",
        "cache.manifest.small-file-threshold",
        "cache.partition.max-num",
        "cache.snapshot.max-num-per-table",
        "file-io.allow-cache",
    }
)
"""Options of Paimon's caches, accepted so that one set of options serves both: nothing is cached
here that could be old."""

T = TypeVar("T")


class CatalogOptions:
    """Options of one catalog as texts. Its ``repr`` names keys only, as values may be secret."""

    __slots__ = ("_texts",)

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._texts = dict(texts)

    def __repr__(self) -> str:
        return f"CatalogOptions({', '.join(sorted(self._texts))})"

    def get(self, option: Option[T]) -> T:
        """The value of an option.

        Raises
        ------
        InvalidInputError
            Its text has the wrong form.
        """
        given = self._texts.get(option.key)
        if given is None:
            return option.default
        try:
            return cast("T", parse_value(option, given))
        except ValueError as error:
            message = f"Catalog option '{option.key}' = {shortened(repr(given))} must be {error}."
            raise InvalidInputError(message, kind="catalog_option", option=option.key) from error

    def need(self, option: Option[str | None], what: str) -> str:
        """The value of an option that must be there.

        Raises
        ------
        InvalidInputError
            It is missing.
        """
        value = self.get(option)
        if not value:
            message = f"The catalog needs the option '{option.key}': {what}."
            raise InvalidInputError(message, kind="catalog_option", option=option.key)
        return value

    def with_prefix(self, prefix: str) -> dict[str, str]:
        """The options whose keys begin with a prefix, without it."""
        return {k.removeprefix(prefix): v for k, v in self._texts.items() if k.startswith(prefix)}


@dataclass(frozen=True, slots=True)
class CatalogRequest:
    """What a metastore is made of.

    Parameters
    ----------
    warehouse : str or None
        As it was given; not yet a path.
    storage : mapping
        How to reach the storage; not shown.
    """

    warehouse: str | None
    options: CatalogOptions
    env: Env
    fileio: FileIO | None
    storage: Mapping[str, object] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class CatalogType:
    """A kind of catalog.

    Parameters
    ----------
    name : str
        The value of ``metastore``.
    prefixes : tuple of str
        Beginnings of further keys, such as ``jdbc.``.
    make : callable
        Makes the metastore.
    """

    name: str
    options: tuple[Option[Any], ...]
    prefixes: tuple[str, ...]
    make: Callable[[CatalogRequest], Metastore]


def chosen_type(
    given: Mapping[str, object], types: Iterable[CatalogType]
) -> tuple[CatalogType, str | None, CatalogOptions]:
    """Choose the kind of a catalog by its options.

    Returns
    -------
    tuple
        The kind; the option ``warehouse``; the other options, which the kind knows.

    Raises
    ------
    InvalidInputError
        There is no such kind, or it has no such option.
    """
    texts = option_texts(given)
    known = {kind.name: kind for kind in types}
    type_name = texts.pop(TYPE, FILESYSTEM if METASTORE not in texts else "paimon")
    metastore = texts.pop(METASTORE, None)
    if type_name in OWN_TYPES:
        name = metastore or FILESYSTEM
    elif metastore not in {None, type_name}:
        message = (
            f"The catalog has 'type' = '{type_name}' and 'metastore' = '{metastore}': give one."
        )
        raise InvalidInputError(message, kind="catalog_option", option=METASTORE)
    else:
        name = type_name
    if name not in known:
        message = (
            f"There is no kind of catalog '{shortened(name)}'.{near_names(name, known)} Use"
            f" {_listed(known)}."
        )
        raise InvalidInputError(message, kind="catalog_option", option=METASTORE)
    chosen = known[name]
    warehouse = texts.pop(WAREHOUSE, None)
    keys = [option.key for option in chosen.options]
    texts = {key: text for key, text in texts.items() if key not in WITHOUT_EFFECT}
    for key in texts:
        if key not in keys and not key.startswith(chosen.prefixes):
            raise _unknown(key, chosen, keys)
    return chosen, warehouse, CatalogOptions(texts)


def _unknown(key: str, chosen: CatalogType, keys: list[str]) -> InvalidInputError:
    known = [TYPE, METASTORE, WAREHOUSE, *keys]
    more = [f"{prefix}<name>" for prefix in (*chosen.prefixes, "table-default.")]
    message = (
        f"Unknown catalog option '{shortened(key)}'.{near_names(key, known)} A catalog of the kind"
        f" '{chosen.name}' takes: {', '.join((*known, *more))}."
    )
    return InvalidInputError(message, kind="unknown_option", option=key)


def _listed(names: Iterable[str]) -> str:
    return " or ".join(f"'{name}'" for name in names)
