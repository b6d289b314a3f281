"""The private names of Spark that Tidelake uses, and the versions of Spark that have them.

The table is ``private_names.tsv``: a class of Spark's, its members that we use (``new`` is a
constructor), the minor versions that have all of them, and who uses it: a Java class of ours or a
module of :mod:`tidelake.spark`. Names that Spark promises (its connector, types, sources) are not
in it. Tests compare it with the Java files and with the Spark that is installed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

TABLE = "private_names.tsv"


@dataclass(frozen=True, slots=True)
class PrivateName:
    """A class of Spark's.

    Parameters
    ----------
    members : tuple of str
        Methods and fields; ``new`` is a constructor.
    versions : tuple of str
        Minor versions of Spark with all of them.
    users : tuple of str
        Java classes of ours, and modules of :mod:`tidelake.spark`.
    """

    name: str
    members: tuple[str, ...]
    versions: tuple[str, ...]
    users: tuple[str, ...]


@lru_cache(maxsize=1)
def private_names() -> tuple[PrivateName, ...]:
    """The table, by name."""
    text = files(__package__).joinpath(TABLE).read_text(encoding="utf-8")
    _, *rows = (line.split("\t") for line in text.splitlines())
    return tuple(PrivateName(name, *(tuple(part.split()) for part in rest)) for name, *rest in rows)


def names_of(*users: str, minor: str) -> tuple[str, ...]:
    """The classes that some of our classes or modules use on a minor version of Spark."""
    known = (one for one in private_names() if minor in one.versions)
    return tuple(one.name for one in known if not set(users).isdisjoint(one.users))
