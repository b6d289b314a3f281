"""Rows of one table from the images in messages: JSON objects, or decoded values.

1. If Arrow can read each column's JSON, all images are read in one call. This is several times as
   fast as any loop in Python.
2. If one image does not fit, or has a column that is not known, or if the images are decoded
   already, they are read value by value. A row with a value that does not fit is left out and has
   its reason; a new column makes the layout grow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.json as pj

from tidelake.cdc.kafka.wire import WireColumn, from_json, json_type, of_values

SAMPLES_MAX = 20
Image = Any
"""JSON as bytes or ``msgspec.Raw``, or a dictionary of decoded values."""
MakeColumn = Callable[[str, Any], WireColumn]
"""Makes a column of an open layout from its name and a value, which may be None."""
_FAST_MISFITS = (pa.ArrowException, ValueError, TypeError, OverflowError, ArithmeticError)
_decode = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal).decode


@dataclass(frozen=True, slots=True)
class RowLayout:
    """The columns that images have.

    Parameters
    ----------
    is_open : bool
        Whether messages name no types, so that images may have more columns.
    """

    columns: tuple[WireColumn, ...]
    is_open: bool = False

    def grown(self, samples: Mapping[str, Any], make: MakeColumn) -> RowLayout:
        """Add the columns that it lacks.

        Parameters
        ----------
        samples : mapping of str to value
            By name: the first value that is not null, or None.
        """
        known = {one.name for one in self.columns}
        new = [make(name, value) for name, value in samples.items() if name not in known]
        return replace(self, columns=(*self.columns, *new)) if new else self


@dataclass(frozen=True, slots=True)
class ImageRows:
    """The rows of some images.

    Parameters
    ----------
    layout : RowLayout
        Perhaps grown.
    arrays : list of pyarrow.Array
        A column each, with a value for every image.
    bad : mapping of int to str
        Images that are no row, and why.
    """

    layout: RowLayout
    arrays: list[pa.Array]
    bad: Mapping[int, str]


def read_images(
    images: Sequence[Image],
    layout: RowLayout,
    make: MakeColumn,
    *,
    of_key: frozenset[str] = frozenset(),
    by_key: frozenset[int] = frozenset(),
) -> ImageRows:
    """Read images.

    Parameters
    ----------
    make : callable
        Of an open layout: makes a column from its name and a value.
    of_key : frozenset of str
        Columns of the key.
    by_key : frozenset of int
        Images that count by their key, those of deletes: another value that does not fit is null.
    """
    if images and not isinstance(images[0], dict):
        fast = _read_json(images, layout)
        if fast is not None:
            return ImageRows(layout, fast, {})
    rows, bad = _decoded(images)
    if layout.is_open:
        layout = layout.grown(_samples(rows), make)
    arrays = []
    for one in layout.columns:
        name = one.name
        array, wrong = of_values(one, [row.get(name) for row in rows])
        arrays.append(array)
        for place, reason in wrong.items():
            if name in of_key or place not in by_key:
                bad.setdefault(place, reason)
    return ImageRows(layout, arrays, bad)


def _samples(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Each column's first value that is not null, in the order of the columns."""
    found: dict[str, Any] = {}
    for row in rows:
        for name, value in row.items():
            if found.get(name) is None:
                found[name] = value
    return found


def samples_of(images: Sequence[Image]) -> dict[str, Any]:
    """Each column's first value that is not null in the first rows."""
    return _samples(_decoded(images[:SAMPLES_MAX])[0])


def _read_json(images: Sequence[Image], layout: RowLayout) -> list[pa.Array] | None:
    """Read all images in one call; None if one does not fit."""
    types = [json_type(one) for one in layout.columns]
    if not types or None in types:
        return None
    body = b"\n".join(images)
    schema = pa.schema(
        [pa.field(one.name, kind) for one, kind in zip(layout.columns, types, strict=True)]
    )
    behavior = "error" if layout.is_open else "ignore"
    try:
        read = pj.read_json(
            pa.BufferReader(body),
            pj.ReadOptions(use_threads=False, block_size=len(body) + 1),
            pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior=behavior),
        )
        if read.num_rows != len(images):
            return None
        return [from_json(one, read.column(one.name).combine_chunks()) for one in layout.columns]
    except _FAST_MISFITS:
        return None


def _decoded(images: Sequence[Image]) -> tuple[list[dict[str, Any]], dict[int, str]]:
    rows: list[dict[str, Any]] = []
    bad: dict[int, str] = {}
    for place, image in enumerate(images):
        if isinstance(image, dict):
            rows.append(image)
            continue
        try:
            rows.append(_decode(image))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            bad[place] = f"the row is no JSON object: {error}"
            rows.append({})
    return rows, bad


def json_of(image: Image) -> str:
    """Show an image as JSON, for people and for a replay."""
    if isinstance(image, dict):
        return msgspec.json.encode(image, enc_hook=str).decode()
    return bytes(image).decode(errors="replace")
