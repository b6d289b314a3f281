"""The functions by name: their types, and whether they can retract rows.

Source: the factories of Paimon's field aggregators (1.3.1).
"""

from __future__ import annotations

from tidelake.types import DataType, TypeRoot

NEWEST = "newest"
"""A column of a sequence group without a function: the newest value, even null. Not a Paimon name:
``last_value``, given as a function, also retracts rows with an older sequence."""

_NUMERIC = frozenset(
    {
        TypeRoot.TINYINT,
        TypeRoot.SMALLINT,
        TypeRoot.INT,
        TypeRoot.BIGINT,
        TypeRoot.FLOAT,
        TypeRoot.DOUBLE,
        TypeRoot.DECIMAL,
    }
)
_NOT_ORDERED = frozenset(
    {
        TypeRoot.BOOLEAN,
        TypeRoot.ARRAY,
        TypeRoot.MAP,
        TypeRoot.MULTISET,
        TypeRoot.ROW,
        TypeRoot.VARIANT,
    }
)
_ORDERED = frozenset(TypeRoot) - _NOT_ORDERED

_ROOTS: dict[str, tuple[frozenset[TypeRoot], str]] = {
    "sum": (_NUMERIC, "a number"),
    "product": (_NUMERIC, "a number"),
    "max": (_ORDERED, "a type with an order"),
    "min": (_ORDERED, "a type with an order"),
    "bool_and": (frozenset({TypeRoot.BOOLEAN}), "BOOLEAN"),
    "bool_or": (frozenset({TypeRoot.BOOLEAN}), "BOOLEAN"),
    "listagg": (frozenset({TypeRoot.VARCHAR}), "STRING or VARCHAR"),
    "collect": (frozenset({TypeRoot.ARRAY}), "an ARRAY"),
    "merge_map": (frozenset({TypeRoot.MAP}), "a MAP"),
    "nested_update": (frozenset({TypeRoot.ARRAY}), "an ARRAY of ROW"),
    "rbm32": (frozenset({TypeRoot.VARBINARY}), "VARBINARY"),
}
_TAKE_RETRACTIONS = frozenset(
    {
        NEWEST,
        "sum",
        "product",
        "last_value",
        "last_non_null_value",
        "collect",
        "merge_map",
        "nested_update",
        "primary-key",
    }
)
_FORGET_RETRACTIONS = frozenset(
    {"product", "last_non_null_value", "collect", "merge_map", "nested_update"}
)
_NOT_COVERED = {
    "rbm64": "its bytes have RoaringBitmap's own format",
    "theta_sketch": "sketches are not covered",
    "hll_sketch": "sketches are not covered",
}


def takes_retractions(name: str) -> bool:
    """Whether a function can retract a row.

    Examples
    --------
    >>> takes_retractions("sum"), takes_retractions("max")
    (True, False)
    """
    return name in _TAKE_RETRACTIONS


def forgets_retractions(name: str) -> bool:
    """Whether a retraction is lost if it comes before the older row.

    The sum of nothing less 5 is -5, which the older row then meets; nothing divided by 5 stays
    nothing.

    Examples
    --------
    >>> forgets_retractions("sum"), forgets_retractions("product")
    (False, True)
    """
    return name in _FORGET_RETRACTIONS


def check_function(
    name: str, data_type: DataType, *, nested_key: tuple[str, ...] = ()
) -> str | None:
    """Describe what is wrong with a function on a column; None if it fits.

    Parameters
    ----------
    name : str
        Requires: one of Paimon's functions.
    nested_key : tuple of str
        Of ``nested_update``.

    Examples
    --------
    >>> from tidelake.types import parse_type
    >>> check_function("sum", parse_type("STRING"))
    "'sum' needs a number, not STRING"
    """
    if name in _NOT_COVERED:
        return f"'{name}' is not covered by this version ({_NOT_COVERED[name]})"
    roots, needed = _ROOTS.get(name, (frozenset(TypeRoot), ""))
    fits = data_type.root in roots
    if fits and name == "nested_update":
        (element,) = data_type.children
        fits = element.root is TypeRoot.ROW
        if fits:
            names = [field for _, field in element.child_fields]
            for key in nested_key:
                if key not in names:
                    return f"its rows have no field '{key}' ({', '.join(names)})"
    return None if fits else f"'{name}' needs {needed}, not {data_type}"
