"""Sums and products.

1. Integers and decimals are added exactly, in 32-bit limbs; a result that does not fit the column
   is an error. Java Paimon 1.3.1 lets integers wrap around and decimals become null; 2.x raises an
   error, as here.
2. Floats are added in row order, because another order changes the last bits. One vector step per
   rank; keys with very many rows are added one by one.
3. Products go rank by rank too; a step that does not fit is an error.

A retraction subtracts or divides. Source: Paimon's ``FieldSumAgg``, ``FieldProductAgg``.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelake.codec.arrow_memory import fixed_values, valid_rows
from tidelake.codec.key_order import FLOAT_DTYPES
from tidelake.codec.number_column import has_numbers, number_array, numbers_at
from tidelake.errors import InvalidInputError
from tidelake.merge.layout import Action, Actions, Events, Layout, Ranked
from tidelake.types import DataType, TypeRoot
from tidelake.types.arrow import to_arrow_type

WORD_BITS = 62  # of a sum that is kept in 64 bits, with room to spare
LIMB_BITS = 32
LIMB_MASK = (1 << LIMB_BITS) - 1
DECIMAL_LIMBS = 4
DECIMAL_DIGITS_MAX = 80  # of a product of two, before it is rounded
SHORT_SEGMENTS_MIN = 16
"""Below so many segments in a rank, each is folded separately."""

Overflow = Callable[[], InvalidInputError]
"""Makes the error of a result that does not fit the column."""

INTEGERS: dict[TypeRoot, type[np.signedinteger[Any]]] = {
    TypeRoot.TINYINT: np.int8,
    TypeRoot.SMALLINT: np.int16,
    TypeRoot.INT: np.int32,
    TypeRoot.BIGINT: np.int64,
}


def total(
    layout: Layout, actions: Actions, column: pa.Array, data_type: DataType, overflow: Overflow
) -> pa.Array:
    """Add the values of each key; null where it has none.

    Parameters
    ----------
    actions : int8 array [n]
        The action of each; a retraction subtracts.
    overflow : callable
        Makes the error.

    Returns
    -------
    pyarrow.Array [s]
    """
    ranked = layout.if_all_add(actions)
    if ranked is not None and has_numbers(data_type):
        sums = _sums_by_rank(ranked, column, data_type, overflow)
        if sums is not None:
            return sums
    elif data_type.root not in FLOAT_DTYPES and has_numbers(data_type):
        words = _words(column, data_type, len(layout.rows))
        if words is not None:
            return _word_sums(layout, actions, words, column, data_type, overflow)
    events = _events(layout, actions, column)
    values = column.take(pa.array(layout.rows[events.at]))
    minus = actions[events.at] == Action.RETRACT
    if data_type.root in FLOAT_DTYPES:
        terms = fixed_values(values, FLOAT_DTYPES[data_type.root]).copy()
        np.negative(terms, out=terms, where=minus)
        with np.errstate(all="ignore"):  # infinities and NaN are values
            sums = _left_sums(terms, events)
        return _scattered(layout, events, pa.array(sums))
    limbs = _limbs(values, data_type)
    limbs[minus] *= -1
    if len(events.at):
        limbs = np.add.reduceat(limbs, events.starts)
    return _scattered(layout, events, _from_limbs(limbs, data_type, overflow))


def _words(column: pa.Array, data_type: DataType, count: int) -> npt.NDArray[np.int64] | None:
    """The values as 64-bit integers, if so many of them can be added in 64 bits.

    Undefined under a null, and small there too. Requires: an integer, or a narrow decimal.
    """
    if data_type.root in INTEGERS:
        words = fixed_values(column, INTEGERS[data_type.root])
    else:
        words = fixed_values(column, np.int64, per_row=2)[::2]
    if len(words) == 0:
        return None
    return words if _fit_word(words, count) else None


def _fit_word(words: npt.NDArray[np.signedinteger[Any]], count: int) -> bool:
    """Whether so many of these numbers can be added in 64 bits."""
    largest = max(abs(int(words.min())), abs(int(words.max())))
    return largest * count < 1 << WORD_BITS


def _word_sums(
    layout: Layout,
    actions: Actions,
    words: npt.NDArray[np.int64],
    column: pa.Array,
    data_type: DataType,
    overflow: Overflow,
) -> pa.Array:
    used = _used(layout, actions, column)
    terms = np.where(used, words[layout.rows], 0).astype(np.int64, copy=False)
    np.negative(terms, out=terms, where=actions == Action.RETRACT)
    known = layout.sums(used.astype(np.int64)) > 0
    return _of_words(layout.sums(terms), known, data_type, overflow)


def _sums_by_rank(
    ranked: Ranked, column: pa.Array, data_type: DataType, overflow: Overflow
) -> pa.Array | None:
    """The sums if every row adds; None for integers that may exceed 64 bits midway."""
    numbers, valid = numbers_at(column, data_type, ranked.rows)
    if data_type.root in FLOAT_DTYPES:
        floats, known = _float_sums(ranked, numbers, valid)
        return number_array(floats, known, data_type)
    if not _fit_word(numbers, len(numbers)):
        return None
    terms = numbers.astype(np.int64, copy=False)
    if valid is None:
        return _of_words(ranked.sums(terms), None, data_type, overflow)
    return _of_words(ranked.sums(terms * valid), ranked.some(valid), data_type, overflow)


def _float_sums(
    ranked: Ranked, terms: npt.NDArray[Any], valid: npt.NDArray[np.bool_] | None
) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_] | None]:
    """The sums and which keys have one. A key's first value begins its sum: 0.0 and -0.0 are 0.0.

    Parameters
    ----------
    terms : float array [n]
        Rank after rank.
    valid : bool array [n], optional
        Rank after rank: whether there is a value.
    """
    with np.errstate(all="ignore"):  # infinities and NaN are values
        if valid is None:
            return ranked.sums(terms), None
        oldest, *newer = ranked.slices
        sums, known = terms[oldest].copy(), valid[oldest].copy()
        for rank in newer:
            term, has = terms[rank], valid[rank]
            before, begun = sums[: len(term)], known[: len(term)]
            np.add(before, term, out=before, where=begun & has)
            np.copyto(before, term, where=has & ~begun)
            begun |= has
    return sums, known


def _of_words(
    sums: npt.NDArray[np.int64],
    known: npt.NDArray[np.bool_] | None,
    data_type: DataType,
    overflow: Overflow,
) -> pa.Array:
    """Values of the type: integers, or decimals of unscaled values."""
    if data_type.root in INTEGERS:
        bounds = np.iinfo(INTEGERS[data_type.root])
        low, high = int(bounds.min), int(bounds.max)
    else:
        high = 10 ** to_arrow_type(data_type).precision - 1
        low = -high
    if int(sums.min(initial=0)) < low or int(sums.max(initial=0)) > high:
        raise overflow()
    return number_array(sums, known, data_type)


def _used(layout: Layout, actions: Actions, column: pa.Array) -> npt.NDArray[np.bool_]:
    """Which rows count [n]."""
    used = (actions != Action.SKIP) & (actions != Action.CLEAR) & layout.since_reset(actions)
    valid = valid_rows(column)
    return used if valid is None else used & valid[layout.rows]


def _events(layout: Layout, actions: Actions, column: pa.Array) -> Events:
    return layout.events(_used(layout, actions, column))


def _scattered(layout: Layout, events: Events, results: pa.Array) -> pa.Array:
    """Give every segment its result; null to those without events."""
    if len(events.segments) == len(layout.starts):
        return results
    index = np.full(len(layout.starts), -1, np.int64)
    index[events.segments] = np.arange(len(results))
    return results.take(pa.array(index, mask=index < 0))


def _limbs(values: pa.Array, data_type: DataType) -> npt.NDArray[np.int64]:
    """Integers of up to 128 bits as sums of limbs: the lowest first, only the highest signed."""
    if data_type.root in INTEGERS:
        own = fixed_values(values, INTEGERS[data_type.root]).astype(np.int64)
        return np.stack([own & LIMB_MASK, own >> LIMB_BITS], axis=1)
    words = fixed_values(values, np.uint32, per_row=DECIMAL_LIMBS).reshape(-1, DECIMAL_LIMBS)
    limbs = words.astype(np.int64)
    limbs[:, -1] = words[:, -1].view(np.int32)
    return limbs


def _from_limbs(sums: npt.NDArray[np.int64], data_type: DataType, overflow: Overflow) -> pa.Array:
    """Carry, and give values of the type."""
    limbs = sums.copy()
    for place in range(limbs.shape[1] - 1):
        limbs[:, place + 1] += limbs[:, place] >> LIMB_BITS
        limbs[:, place] &= LIMB_MASK
    top = limbs[:, -1]
    if ((top < -(1 << LIMB_BITS - 1)) | (top >= 1 << LIMB_BITS - 1)).any():
        raise overflow()
    arrow_type = to_arrow_type(data_type)
    if data_type.root in INTEGERS:
        whole = (top << LIMB_BITS) | limbs[:, 0]
        bounds = np.iinfo(INTEGERS[data_type.root])
        if ((whole < bounds.min) | (whole > bounds.max)).any():
            raise overflow()
        return pa.array(whole.astype(INTEGERS[data_type.root]), arrow_type)
    words = (limbs & LIMB_MASK).astype(np.uint32)
    memory = pa.py_buffer(np.ascontiguousarray(words))
    results = pa.Array.from_buffers(arrow_type, len(words), [None, memory])
    if len(results) and not _fits(results, arrow_type.precision):
        raise overflow()
    return results


def _fits(results: pa.Array, precision: int) -> bool:
    unscaled = pa.Array.from_buffers(pa.decimal128(38, 0), len(results), results.buffers())
    largest = pa.scalar(10**precision - 1, pa.decimal128(38, 0))
    high = pc.less_equal(unscaled, largest)
    low = pc.greater_equal(unscaled, pc.negate(largest))
    return bool(pc.all(pc.and_(high, low)).as_py())


def _left_sums(terms: npt.NDArray[Any], events: Events) -> npt.NDArray[Any]:
    """Add from left to right inside each segment."""
    lengths = events.lengths
    order = np.argsort(-lengths, kind="stable")
    starts, left = events.starts[order], lengths[order]
    sums = terms[starts]
    rank = 1
    active = int(np.searchsorted(-left, -rank, side="left"))
    while active >= SHORT_SEGMENTS_MIN:
        sums[:active] += terms[starts[:active] + rank]
        rank += 1
        active = int(np.searchsorted(-left, -rank, side="left"))
    for place in range(active):
        tail = terms[starts[place] + rank : starts[place] + left[place]]
        sums[place] = np.add.accumulate(np.concatenate([sums[place : place + 1], tail]))[-1]
    results = np.empty_like(sums)
    results[order] = sums
    return results


def product(
    layout: Layout, actions: Actions, column: pa.Array, data_type: DataType, overflow: Overflow
) -> pa.Array:
    """Multiply the values of each key; null where it has none.

    A retraction divides; integers towards zero, like Java's ``/``. If there is nothing to divide
    yet, it has no effect. Decimals are rounded half up to the column's scale at each step. The
    arguments are those of :func:`total`.

    Raises
    ------
    InvalidInputError
        A result does not fit the column, or a row with 0 is retracted.
    """
    events = _events(layout, actions, column)
    divides = actions[events.at] == Action.RETRACT
    begun = np.maximum.accumulate(np.where(divides, -1, events.at)) >= np.repeat(
        layout.starts[events.segments], events.lengths
    )
    if not begun.all():  # nothing to divide yet
        mask = np.zeros(len(layout.rows), np.bool_)
        mask[events.at[begun]] = True
        events, divides = layout.events(mask), divides[begun]
    values = column.take(pa.array(layout.rows[events.at]))
    if data_type.root in FLOAT_DTYPES:
        factors = fixed_values(values, FLOAT_DTYPES[data_type.root])
        with np.errstate(all="ignore"):  # infinities and NaN are values
            results = pa.array(_folded(factors, divides, events, _float_step))
    elif data_type.root in INTEGERS:
        dtype = INTEGERS[data_type.root]
        factors = fixed_values(values, dtype).astype(np.int64)
        step = _integer_step(np.iinfo(dtype), overflow)
        results = pa.array(_folded(factors, divides, events, step).astype(dtype))
    else:
        results = _decimal_products(values, divides, events, data_type, overflow)
    return _scattered(layout, events, results.cast(to_arrow_type(data_type)))


Step = Callable[[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[np.bool_]], npt.NDArray[Any]]
"""Takes accumulators, the next factors and whether these divide."""


def _folded(
    factors: npt.NDArray[Any], divides: npt.NDArray[np.bool_], events: Events, step: Step
) -> npt.NDArray[Any]:
    """Fold from left to right inside each segment, all segments a step at a time."""
    order = np.argsort(-events.lengths, kind="stable")
    starts, left = events.starts[order], events.lengths[order]
    done = factors[starts]
    for rank in range(1, int(left.max(initial=0))):
        active = int(np.searchsorted(-left, -rank, side="left"))
        at = starts[:active] + rank
        done[:active] = step(done[:active], factors[at], divides[at])
    results = np.empty_like(done)
    results[order] = done
    return results


def _float_step(
    before: npt.NDArray[Any], factor: npt.NDArray[Any], divides: npt.NDArray[np.bool_]
) -> npt.NDArray[Any]:
    return np.where(divides, before / factor, before * factor)


def _integer_step(bounds: np.iinfo[Any], overflow: Overflow) -> Step:
    def step(
        before: npt.NDArray[Any], factor: npt.NDArray[Any], divides: npt.NDArray[np.bool_]
    ) -> npt.NDArray[Any]:
        if (divides & (factor == 0)).any():
            raise overflow()
        divisor = np.where(factor == 0, 1, factor)
        quotient = np.abs(before) // np.abs(divisor) * np.sign(before) * np.sign(divisor)
        times = before * factor
        # dividing by a wrapped product fails the check; the smallest integer times -1 does not
        wrapped = (factor != 0) & (times // divisor != before)
        wrapped |= (factor == -1) & (before == np.iinfo(np.int64).min)
        after = np.where(divides, quotient, times)
        if ((wrapped & ~divides) | (after < bounds.min) | (after > bounds.max)).any():
            raise overflow()
        return after

    return step


def _decimal_products(
    values: pa.Array,
    divides: npt.NDArray[np.bool_],
    events: Events,
    data_type: DataType,
    overflow: Overflow,
) -> pa.Array:
    """Key by key: Arrow has no product of decimals that rounds as BigDecimal does."""
    arrow_type = to_arrow_type(data_type)
    quantum = decimal.Decimal(1).scaleb(-arrow_type.scale)
    context = decimal.Context(
        prec=DECIMAL_DIGITS_MAX,
        rounding=decimal.ROUND_HALF_UP,
        traps=[decimal.InvalidOperation, decimal.DivisionByZero],
    )
    limit = decimal.Decimal(1).scaleb(arrow_type.precision - arrow_type.scale)
    factors, divisions = values.to_pylist(), divides.tolist()
    results = []
    try:
        for start, length in zip(events.starts.tolist(), events.lengths.tolist(), strict=True):
            done = factors[start]
            for place in range(start + 1, start + length):
                own = factors[place]
                done = (
                    context.divide(done, own) if divisions[place] else context.multiply(done, own)
                )
                done = context.quantize(done, quantum)
                if abs(done) >= limit:
                    raise overflow()
            results.append(done)
        return pa.array(results, arrow_type)
    except (decimal.DecimalException, pa.ArrowInvalid) as error:
        raise overflow() from error
