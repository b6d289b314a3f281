"""Texts of PostgreSQL's arrays: ``{1,2,NULL}``, ``{"a b",c}``, ``[0:1]={1,2}``.

Simple arrays, without quotes, are split by Arrow. The others go character by character: about a
microsecond each.

Bounds in front are left out: the lake's arrays begin where they begin. An array of more than one
dimension has no type in the lake.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_SIMPLE = r"^\{[^{}\"\\]*\}$"


def split_arrays(texts: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """Split texts of arrays into texts of elements.

    Returns
    -------
    offsets : numpy.ndarray
        int32, ``[n + 1]``: where the elements of each array begin.
    elements : pyarrow.Array
        Texts; null for NULL.

    Raises
    ------
    pyarrow.ArrowInvalid
        One is no array of one dimension.

    Examples
    --------
    >>> offsets, elements = split_arrays(pa.array(["{1,NULL}", "{}", None]))
    >>> offsets.tolist(), elements.to_pylist()
    ([0, 2, 2, 2], ['1', None])
    """
    simple = pc.all(pc.match_substring_regex(texts, _SIMPLE)).as_py()
    if simple is False:
        return _slowly(texts)
    inner = pc.utf8_slice_codeunits(texts, 1, -1)
    parts = pc.split_pattern(inner, ",")
    # an empty array splits into one empty text
    counts = pc.if_else(pc.equal(inner, ""), 0, pc.list_value_length(parts)).fill_null(0)
    offsets = np.zeros(len(texts) + 1, np.int32)
    np.cumsum(counts.to_numpy(zero_copy_only=False), out=offsets[1:])
    flat = parts.flatten()
    flat = flat.filter(pc.not_equal(flat, ""))
    return offsets, pc.if_else(pc.equal(flat, "NULL"), pa.scalar(None, flat.type), flat)


def _slowly(texts: pa.Array) -> tuple[np.ndarray, pa.Array]:
    offsets, elements = [0], []
    for text in texts.to_pylist():
        if text is not None:
            elements.extend(_elements(text))
        offsets.append(len(elements))
    return np.array(offsets, np.int32), pa.array(elements, pa.string())


def _elements(text: str) -> list[str | None]:
    if text.startswith("["):
        text = text.partition("=")[2]
    if not (text.startswith("{") and text.endswith("}")):
        raise pa.ArrowInvalid("no array")
    if text == "{}":
        return []
    found: list[str | None] = []
    place, end = 1, len(text) - 1
    while place <= end:
        if text[place] == '"':
            element, place = _quoted(text, place + 1)
            found.append(element)
        else:
            stop = text.find(",", place, end)
            stop = end if stop < 0 else stop
            element, place = text[place:stop], stop
            if "{" in element or "}" in element:
                raise pa.ArrowInvalid("more than one dimension")
            found.append(None if element == "NULL" else element)
        place += 1  # the comma or the closing brace
    return found


def _quoted(text: str, place: int) -> tuple[str, int]:
    """An element in quotes that begins at a place, and the place after its closing quote."""
    parts = []
    while text[place] != '"':
        place += text[place] == "\\"
        parts.append(text[place])
        place += 1
    return "".join(parts), place + 1
