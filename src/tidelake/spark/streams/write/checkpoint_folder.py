"""The folder of a checkpoint: what a sink reads and writes there, beside Spark.

A folder on a file system that this process sees is read as such. One in a store is read by Hadoop's
file system (:mod:`tidelake.spark.streams.write.hadoop_folder`), as Spark does.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tidelake.errors import InvalidInputError, StorageError


class CheckpointFolder(Protocol):
    """A folder. Names are relative, such as ``"offsets/3"``; each call may raise StorageError."""

    @property
    def shown(self) -> str:
        """The folder in messages. It tells the folder from a copy of it."""
        ...

    @property
    def uri(self) -> str:
        """The folder as Spark's option takes it."""
        ...

    def read(self, name: str) -> str | None:
        """Read a file; None if it is missing."""
        ...

    def has(self, name: str) -> bool:
        """Whether a file is there."""
        ...

    def names(self, name: str) -> Sequence[str]:
        """List the names in a folder below; none if it is missing."""
        ...

    def put_new(self, name: str, text: str) -> bool:
        """Write a file atomically; False if there is one already."""
        ...

    def replace(self, name: str, text: str) -> None:
        """Write or overwrite a file."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        ...


@dataclass(frozen=True, slots=True)
class LocalFolder:
    """A folder that this process sees; for the methods see :class:`CheckpointFolder`.

    Parameters
    ----------
    path : Path
        Absolute; Spark makes it.
    """

    path: Path

    @property
    def shown(self) -> str:
        """The path."""
        return str(self.path)

    @property
    def uri(self) -> str:
        """A URI: so it is a local path, whatever Spark's default file system is.

        Hadoop takes the text behind the scheme as it stands, so nothing is encoded: a folder
        ``a b`` is ``file:///a b``, and ``file:///a%20b`` has a percent sign in its name.
        """
        return f"file://{self.path}"

    def read(self, name: str) -> str | None:
        """Read a file."""
        try:
            return (self.path / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except NotADirectoryError as error:
            message = f"The checkpoint {self.path} is a file, or lies in one: give a folder."
            raise InvalidInputError(message, kind="no_checkpoint", path=str(self.path)) from error
        except (OSError, UnicodeDecodeError) as error:
            message = f"The checkpoint {self.path} cannot be read: {error}."
            raise StorageError(message, path=str(self.path)) from error

    def has(self, name: str) -> bool:
        """Whether a file is there."""
        return (self.path / name).exists()

    def names(self, name: str) -> Sequence[str]:
        """List a folder below."""
        folder = self.path / name
        return [entry.name for entry in folder.iterdir()] if folder.is_dir() else []

    def put_new(self, name: str, text: str) -> bool:
        """Write a file by a hard link."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(
                "w", encoding="utf-8", dir=self.path, prefix=f".{name}."
            ) as new:
                new.write(text)
                new.flush()
                (self.path / name).hardlink_to(new.name)
        except FileExistsError:
            return False
        except OSError as error:
            raise self._unwritable(error) from error
        return True

    def replace(self, name: str, text: str) -> None:
        """Write a file by a rename."""
        try:
            new = self.path / f".{name}.new"
            new.write_text(text, encoding="utf-8")
            new.replace(self.path / name)
        except OSError as error:
            raise self._unwritable(error) from error

    def remove(self, name: str) -> None:
        """Remove a file."""
        (self.path / name).unlink(missing_ok=True)

    def _unwritable(self, error: OSError) -> StorageError:
        message = f"The checkpoint {self.path} cannot be written: {error}."
        return StorageError(message, path=str(self.path))
