"""The types of the options' constants: src/tidelake/options/declared.pyi."""

from __future__ import annotations

from typing import Any

from tidelake.options import declared
from tidelake.options.option import Kind, Option
from tidelake.options.option_table import constants

HEAD = """\
# Written by scripts/gen_docs.py from declared.tsv: change it there.
from collections.abc import Mapping
from typing import Any, Final

from tidelake.options.option import Option

THEMES: Final[Mapping[str, tuple[Option[Any], ...]]]
BY_KEY: Final[Mapping[str, Option[Any]]]
"""

TYPES = {
    Kind.BOOLEAN: "bool",
    Kind.DOUBLE: "float",
    Kind.DURATION: "int",
    Kind.ENUM: "str",
    Kind.FLOAT: "float",
    Kind.INTEGER: "int",
    Kind.LONG: "int",
    Kind.MAP: "Mapping[str, str]",
    Kind.MEMORY_SIZE: "int",
    Kind.STRING: "str",
}


def options_stub() -> str:
    """The file with the type of each constant."""
    named = constants(declared.BY_KEY.values())
    return HEAD + "".join(f"{name}: Final[Option[{_type(o)}]]\n" for name, o in named.items())


def _type(option: Option[Any]) -> str:
    return TYPES[option.kind] + (" | None" if option.default is None else "")
