"""What a user may do, as ``SHOW GRANTS`` says it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from tidelake.cdc.mysql.connection import ServerSession
from tidelake.errors import StorageRefusedError

_GRANT = re.compile(r"GRANT (.+?) ON (?:TABLE )?(\*|`(?:[^`]|``)*`)\.(\*|`(?:[^`]|``)*`) TO ", re.I)
EVERYTHING = "GRANT ALL PRIVILEGES ON *.* TO "


@dataclass(frozen=True, slots=True)
class Grants:
    """The rights of a user.

    Parameters
    ----------
    texts : sequence of str
        A row of the answer each.
    """

    texts: Sequence[str]

    @classmethod
    def ask(cls, session: ServerSession) -> Grants:
        """Ask for those of the session's user; a server without tables of rights allows all."""
        try:
            return cls([str(row[0]) for row in session.rows("SHOW GRANTS")])
        except StorageRefusedError:
            return cls([EVERYTHING])

    def allow(self, right: str, database: str | None = None) -> bool:
        """Whether they have a right on all databases, or on one.

        Examples
        --------
        >>> of_shop = Grants(["GRANT SELECT, LOCK TABLES ON `sh_p`.* TO `a`@`%`"])
        >>> of_shop.allow("LOCK TABLES", "shop"), of_shop.allow("LOCK TABLES")
        (True, False)
        """
        for text in self.texts:
            found = _GRANT.match(text)
            if found is None or found[3] != "*":
                continue
            rights = {one.strip().upper() for one in found[1].split(",")}
            is_wide = found[2] == "*" or (database is not None and _fits(found[2], database))
            if is_wide and rights & {right, "ALL PRIVILEGES"}:
                return True
        return False


def _fits(quoted: str, database: str) -> bool:
    """Whether a database's name is of a grant's pattern, in which ``_`` and ``%`` are wild."""
    pattern, at, name = "", 0, quoted[1:-1].replace("``", "`")
    while at < len(name):
        if name[at] == "\\" and at + 1 < len(name):
            at += 1
            pattern += re.escape(name[at])
        else:
            pattern += {"_": ".", "%": ".*"}.get(name[at], re.escape(name[at]))
        at += 1
    return re.fullmatch(pattern, database, re.DOTALL) is not None
