"""FLOAT and DOUBLE as Java prints them: the fewest digits that restore them, in Java's notation.

``1.0``, ``1.0E7``, ``1.0E-4``; at least one digit after the point; an exponent from 10^7 on and
below 10^-3. If one digit would suffice, the nearest text of two digits is taken (``4.9E-324``).

Source: ``Double.toString`` of JDK 19 and later. Earlier versions print one digit too many for a few
numbers (JDK-4511638).
"""

from __future__ import annotations

import math

import numpy as np


def float_text(number: float, *, digits: int) -> str:
    """Return the text.

    Parameters
    ----------
    digits : {32, 64}
        Bits of its type: a FLOAT needs fewer digits to read back.

    Examples
    --------
    >>> float_text(1e7, digits=64), float_text(0.1, digits=64), float_text(5e-324, digits=64)
    ('1.0E7', '0.1', '4.9E-324')
    """
    if math.isnan(number):
        return "NaN"
    sign = "-" if math.copysign(1.0, number) < 0 else ""
    number = abs(number)
    if math.isinf(number):
        return sign + "Infinity"
    if number == 0:
        return sign + "0.0"
    kind = np.float32 if digits == 32 else np.float64
    mantissa, _, exponent = np.format_float_scientific(kind(number), unique=True).partition("e")
    figures = mantissa.replace(".", "")
    if len(figures.rstrip("0")) == 1:
        two, _, other = f"{number:.1e}".partition("e")
        if kind(f"{two}e{other}") == kind(number):
            figures, exponent = two.replace(".", ""), other
    power = int(exponent)
    figures = figures.rstrip("0") or "0"
    if -3 <= power < 7:
        if power < 0:
            return f"{sign}0.{'0' * (-power - 1)}{figures}"
        whole = figures[: power + 1].ljust(power + 1, "0")
        return f"{sign}{whole}.{figures[power + 1 :] or '0'}"
    return f"{sign}{figures[0]}.{figures[1:] or '0'}E{power}"
