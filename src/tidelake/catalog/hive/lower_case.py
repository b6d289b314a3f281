"""Names in a metastore, which keeps them in lower case."""

from __future__ import annotations

from tidelake.catalog.identifier import Identifier
from tidelake.errors import InvalidInputError, shortened


def is_lower(name: Identifier) -> bool:
    """Whether a metastore may have the name."""
    return str(name) == str(name).lower()


def check_lower(name: str, what: str) -> None:
    """Refuse a name that the metastore would change.

    Raises
    ------
    InvalidInputError
        It has capitals.
    """
    if name != name.lower():
        message = (
            f"The {what} name '{shortened(name)}' has capitals, and a metastore keeps names in"
            f" lower case: use '{shortened(name.lower())}'."
        )
        raise InvalidInputError(message, kind="bad_name", name=name)
