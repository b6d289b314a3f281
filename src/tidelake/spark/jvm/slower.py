"""Says once, by a warning, what is slower because this Spark does not take a class of ours."""

from __future__ import annotations

import warnings

_SAID: set[tuple[str, str]] = set()
"""What was said, with the version of Spark that it was said of."""


def warn_slower(what: str, version: str, problem: object) -> None:
    """Warn of it, once in a process, however many warehouses are attached.

    Parameters
    ----------
    what : str
        What is slower, and how much.
    version : str
        Of Spark.
    problem : object
        Why.
    """
    if (what, version) in _SAID:
        return
    _SAID.add((what, version))
    text = f"{what}, because Spark {version} does not take a Java class of Tidelake: {problem}"
    warnings.warn(text, RuntimeWarning, stacklevel=1)
