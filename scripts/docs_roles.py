"""Docstrings' ``:meth:`~a.b.name` `` become plain code on the reference page.

An extension of Griffe, which reads the docstrings for mkdocstrings; so it is the same for every
generator of sites that runs mkdocstrings.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod):`(~?)([^`<]+)`")


def without_roles(text: str) -> str:
    """Give a docstring without the marks of Sphinx; ``~`` leaves the last part of a name."""
    return ROLE.sub(lambda m: f"`{m[2].rpartition('.')[2] if m[1] else m[2]}`", text)


class PlainRoles(griffe.Extension):
    """Takes the roles out of the docstring of every object."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of an object that was just read."""
        if obj.docstring is not None:
            obj.docstring.value = without_roles(obj.docstring.value)
