"""``substring``, ``upper``, ``lower`` and ``trim``.

They are Java's: ``String.substring`` counts UTF-16 units, case is mapped in full (``ß`` to ``SS``),
``String.trim`` takes off everything up to the space. Source: Paimon's ``Expression``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tidelake.cdc.columns.expression import STRING, Evaluated, Moment, texts_of
from tidelake.errors import shortened
from tidelake.types import DataType

_OUTSIDE_BMP = r"[\x{10000}-\x{10FFFF}]"
_TRIMMED = "".join(map(chr, range(33)))


def is_ascii(texts: pa.Array) -> bool:
    """Whether all texts are ASCII."""
    return bool(pc.all(pc.string_is_ascii(texts), min_count=0).as_py())


def utf16_lengths(texts: pa.Array) -> NDArray[np.int64]:
    """Lengths as Java counts them; 0 of a null."""
    lengths = pc.utf8_length(texts)
    if not is_ascii(texts):
        lengths = pc.add(lengths, pc.count_substring_regex(texts, _OUTSIDE_BMP))
    counted: NDArray[np.int64] = pc.fill_null(lengths, 0).to_numpy(zero_copy_only=False)
    return counted.astype(np.int64)


def utf16_slice(texts: pa.Array, begin: int, end: int | None) -> pa.Array:
    """Cut texts at UTF-16 units, within their lengths; half a character becomes ``?``."""
    if is_ascii(texts) or not pc.any(pc.match_substring_regex(texts, _OUTSIDE_BMP)).as_py():
        return pc.utf8_slice_codeunits(texts, begin, end)
    stop = None if end is None else 2 * end
    # row by row, 1 us each: only batches with such characters come here
    cut = [
        None if text is None else _readable(text.encode("utf-16-le")[2 * begin : stop])
        for text in texts.to_pylist()
    ]
    return pa.array(cut, pa.string())


def _readable(utf16: bytes) -> str:
    text = utf16.decode("utf-16-le", "surrogatepass")
    return text.encode("utf-8", "replace").decode("utf-8")


@dataclass(frozen=True, slots=True)
class Substring:
    """Characters of a value's text, from a place and perhaps to one."""

    reference: str
    source: DataType
    begin: int
    end: int | None

    @property
    def type(self) -> DataType:
        """STRING."""
        return STRING

    def evaluate(self, values: pa.Array, moment: Moment) -> Evaluated:
        """Cut the texts; one that is too short is a fault, as in Paimon."""
        texts = texts_of(values, self.source, zone=moment.zone)
        needed = self.begin if self.end is None else self.end
        return cut_texts(texts, self.begin, self.end, needed=needed)


def cut_texts(texts: pa.Array, begin: int, end: int | None, *, needed: int) -> Evaluated:
    """Cut texts; those shorter than `needed` are faults."""
    valid = texts.is_valid().to_numpy(zero_copy_only=False)
    short = np.flatnonzero(valid & (utf16_lengths(texts) < needed))
    if not len(short):
        return Evaluated(utf16_slice(texts, begin, end))
    keep = np.ones(len(texts), bool)
    keep[short] = False
    cut = utf16_slice(pc.if_else(pa.array(keep), texts, pa.scalar(None, texts.type)), begin, end)
    faults = {
        int(row): f"{shortened(repr(texts[int(row)].as_py()))} has less than {needed} characters"
        for row in short
    }
    return Evaluated(cut, faults)


def _by_distinct(texts: pa.Array, change: Callable[[str], str]) -> pa.Array:
    coded = texts.dictionary_encode()
    distinct: Sequence[str] = coded.dictionary.to_pylist()
    return pa.array([change(text) for text in distinct], pa.string()).take(coded.indices)


def _upper(texts: pa.Array) -> pa.Array:
    return pc.ascii_upper(texts) if is_ascii(texts) else _by_distinct(texts, str.upper)


def _lower(texts: pa.Array) -> pa.Array:
    return pc.ascii_lower(texts) if is_ascii(texts) else _by_distinct(texts, str.lower)


def _trim(texts: pa.Array) -> pa.Array:
    return pc.utf8_trim(texts, characters=_TRIMMED)


_CHANGES: dict[str, Callable[[pa.Array], pa.Array]] = {
    "upper": _upper,
    "lower": _lower,
    "trim": _trim,
}
CHANGE_FUNCTIONS = tuple(_CHANGES)


@dataclass(frozen=True, slots=True)
class ChangedText:
    """A text in upper or lower case, or without spaces at its ends."""

    function: str
    reference: str

    @property
    def type(self) -> DataType:
        """STRING."""
        return STRING

    def evaluate(self, values: pa.Array, moment: Moment) -> Evaluated:  # noqa: ARG002
        """Change the texts."""
        return Evaluated(_CHANGES[self.function](values))
