"""Where the lookup files of a table are on the local disk, made anew whenever it is gone.

Temporary files are cleaned by others: a directory, or a part of it, may vanish while files in it
are open. Open files stay readable. So nobody relies on a directory that was there a moment ago:
:meth:`LookupDirectory.make` is called before each file is looked for or made.
"""

from __future__ import annotations

import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from xxhash import xxh3_128_hexdigest

from tidelake.errors import StorageRefusedError


@dataclass(frozen=True, slots=True)
class LookupDirectory:
    """The directory of one table.

    Parameters
    ----------
    own_root : Path, optional
        The directory above it among the machine's temporary files, where others could put one.
    """

    path: Path
    own_root: Path | None = None

    @classmethod
    def of(cls, table_uri: str, given: str | Path | None) -> LookupDirectory:
        """Name a table's directory below the given one, or below that of this user."""
        own = xxh3_128_hexdigest(table_uri.encode())
        if given is not None:
            return cls(Path(given, own))
        root = Path(tempfile.gettempdir(), f"tidelake-lookup-{os.geteuid()}")
        return cls(root / own, root)

    def make(self) -> None:
        """Make it if it is not there.

        Raises
        ------
        StorageRefusedError
            Another user could have put it there.
        FileNotFoundError
            Others removed it at the same time.
        OSError
            The disk refuses.
        """
        root = self.own_root
        if root is not None:
            _make(root)
            facts = root.lstat()
            if facts.st_uid != os.geteuid() or facts.st_mode & 0o022 or root.is_symlink():
                message = (
                    f"{root} belongs to another user, or others may write to it: remove it, or name"
                    " a directory, as in local_query(directory=...)."
                )
                raise StorageRefusedError(message, kind="lookup_directory", path=str(root))
        _make(self.path)


def _make(path: Path) -> None:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError:
        # it may have been another's that was removed by now: then there is nothing to look at
        if not stat.S_ISDIR(path.stat().st_mode):
            raise
