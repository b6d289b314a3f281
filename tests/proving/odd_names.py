"""Names of folders with characters that mean something in a URI, a pattern or a shell."""

from __future__ import annotations

import random

__all__ = ["odd_name"]

PIECES = (
    *" +#%&=;!@'(),[]{}^`|~$*?<>\"",
    *("ü", "日本", "e\u0301", "%20", "%2F", "%25", "a b", "..", "-", "_"),
)
PIECES_MAX = 5


def odd_name(seed: object) -> str:
    """Draw a name of a folder; equal seeds give equal names.

    It holds no ``/``, no ``\\`` and no ``:``, and does not end with a blank or a dot.
    """
    rng = random.Random(str(seed))
    count = rng.randrange(1, PIECES_MAX + 1)
    return f"c{''.join(rng.choices(PIECES, k=count))}z"
