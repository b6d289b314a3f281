"""The rows of a file that an index keeps: all, none, or those of a mask.

``True`` is every row (or no answer), ``False`` is none; a mask is never all false. Rows that are
left out surely do not match; rows that are kept may.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]
Rows = bool | Mask


def mask_of(mask: Mask) -> Rows:
    """Convert a mask to rows."""
    if mask.all():
        return True
    return mask if mask.any() else False


def both(one: Rows, other: Rows) -> Rows:
    """Intersect two sets of rows."""
    if isinstance(one, bool):
        return other if one else False
    if isinstance(other, bool):
        return one if other else False
    return mask_of(one & other)


def either(one: Rows, other: Rows) -> Rows:
    """Unite two sets of rows."""
    if isinstance(one, bool):
        return True if one else other
    if isinstance(other, bool):
        return True if other else one
    return mask_of(one | other)
