"""The checkpoint of a query of Spark's, as far as a sink needs it.

Spark keeps its own files in the folder: ``metadata`` with the query's id, ``offsets/N`` when batch
N begins, ``commits/N`` when it is done. The sink adds ``tidelake-sink.json``, which says what the
query writes to: a query whose batches went to one table must not go on with another, for the rows
of its earlier batches would be missing there.

The folder is a path that this process sees, as a warehouse is.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self
from urllib.parse import unquote, urlsplit

from tidelake.errors import CorruptError, InvalidInputError, StorageError, UnsupportedError

__all__ = ["Checkpoint", "SinkMark", "check_mark"]

MARK_FILE = "tidelake-sink.json"
RUN_FILE = "tidelake-run.json"
VERSION = 1


@dataclass(frozen=True, slots=True)
class SinkMark:
    """What the query of a checkpoint writes to.

    Parameters
    ----------
    table : str
        ``"database.table"``, for messages.
    created_ms : int
        When the table was created: one that is made anew under the name is another.
    mode : str
        The output mode.
    schema_id : int
        The table's schema when the query first began: columns that it lacked are null.
    sources : tuple of str
        What the query reads, as Spark shows it; empty where that is not known.
    """

    table: str
    created_ms: int
    mode: str
    schema_id: int
    sources: tuple[str, ...] = ()

    def to_json(self) -> str:
        """The text of the file."""
        return json.dumps({"v": VERSION, **asdict(self)}, indent=1)

    @classmethod
    def from_json(cls, text: str, *, path: str) -> Self:
        """Read the text of the file.

        Raises
        ------
        CorruptError
            It is damaged, or of a later version.
        """
        try:
            found = json.loads(text)
            if found.pop("v") != VERSION:
                message = f"{path} was written by a later version of Tidelake: update this one."
                raise CorruptError(message, kind="checkpoint_damaged", path=path)
            return cls(**{**found, "sources": tuple(found["sources"])})
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            message = f"{path} is damaged: {error}. Begin with a new checkpoint."
            raise CorruptError(message, kind="checkpoint_damaged", path=path) from error


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A folder of a query of Spark's.

    Parameters
    ----------
    path : Path
        The folder, absolute; Spark makes it.
    """

    path: Path

    @classmethod
    def of(cls, given: str | Path | None, *, table: str) -> Self:
        """The folder that the caller names.

        Raises
        ------
        InvalidInputError
            None is named. There is no default: a folder that is gone at the next start makes the
            stream begin anew, and write its rows twice.
        UnsupportedError
            It is no path on a file system that this process sees.
        """
        if given is None or not str(given).strip():
            message = (
                f"A stream into table '{table}' needs checkpoint=, a folder of its own that"
                " outlives this process: there Spark keeps how far the stream has come, so that a"
                " restart loses and repeats nothing."
            )
            raise InvalidInputError(message, kind="no_checkpoint", table=table)
        parts = urlsplit(str(given))
        if parts.scheme not in {"", "file"}:
            message = (
                f"The checkpoint {given} of a stream into table '{table}' is not supported: give a"
                " path of a file system that the driver sees, as it sees the warehouse."
            )
            raise UnsupportedError(message, kind="checkpoint_storage", table=table)
        path = unquote(parts.path) if parts.scheme else str(given)
        return cls(Path(path).expanduser().absolute())

    @property
    def uri(self) -> str:
        """What Spark is given: whatever its default file system is, this is a local path."""
        return self.path.as_uri()

    def query_id(self) -> str | None:
        """The id that all runs of the query have; None before Spark began with it."""
        text = self._read("metadata")
        if text is None:
            return None
        try:
            return str(json.loads(text)["id"])
        except (ValueError, KeyError, TypeError) as error:
            message = f"{self.path / 'metadata'} is damaged: {error}. Begin with a new checkpoint."
            path = str(self.path)
            raise CorruptError(message, kind="checkpoint_damaged", path=path) from error

    @property
    def has_batches(self) -> bool:
        """Whether a batch of the query has begun."""
        return self._has_entries("offsets")

    @property
    def has_done_batches(self) -> bool:
        """Whether Spark has noted a batch of the query as done."""
        return self._has_entries("commits")

    def _has_entries(self, name: str) -> bool:
        folder = self.path / name
        return folder.is_dir() and any(entry.name.isdecimal() for entry in folder.iterdir())

    def remove_torn_start(self) -> None:
        """Remove the temporary files of a run that was killed before its first batch began.

        Spark refuses a folder that holds such files but no batch (4.3:
        ``STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY``), though nothing was read yet.
        """
        if self.has_batches:
            return
        for folder in (self.path / "offsets", self.path / "commits"):
            for torn in folder.glob(".*"):
                if torn.name.removesuffix(".crc").endswith(".tmp"):
                    torn.unlink(missing_ok=True)

    def is_done(self, batch_id: int) -> bool:
        """Whether Spark has noted that a batch is done, so that it never comes again."""
        return (self.path / "commits" / str(batch_id)).exists()

    def watermark_before(self, batch_id: int) -> int | None:
        """Event time in ms that the stream had come to when a batch began; None for none.

        It is in the second line of ``offsets/N``.
        """
        text = self._read(f"offsets/{batch_id}")
        lines = [] if text is None else text.splitlines()
        try:
            found = int(json.loads(lines[1])["batchWatermarkMs"])
        except (ValueError, KeyError, TypeError, IndexError):
            return None
        return found or None

    def mark(self) -> SinkMark | None:
        """What the query writes to; None where no sink has said so."""
        text = self._read(MARK_FILE)
        return None if text is None else SinkMark.from_json(text, path=str(self.path / MARK_FILE))

    def put_mark(self, mark: SinkMark) -> bool:
        """Say what the query writes to, whole or not at all; False where it was said before."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(
                "w", encoding="utf-8", dir=self.path, prefix=f".{MARK_FILE}."
            ) as new:
                new.write(mark.to_json())
                new.flush()
                (self.path / MARK_FILE).hardlink_to(new.name)
        except FileExistsError:
            return False
        except OSError as error:
            message = f"The checkpoint {self.path} cannot be written: {error}."
            raise StorageError(message, path=str(self.path)) from error
        return True

    def run_term(self) -> int:
        """The term of the run that goes on in this very folder; 0 of a new one, or a copied one."""
        text = self._read(RUN_FILE)
        try:
            found = {} if text is None else json.loads(text)
            return int(found["term"]) if found.get("folder") == str(self.path) else 0
        except (ValueError, KeyError, TypeError, AttributeError):  # a crash tore it
            return 0

    def put_run_term(self, term: int) -> None:
        """Say the term of the run that goes on in this folder."""
        text = json.dumps({"v": VERSION, "folder": str(self.path), "term": term})
        try:
            new = self.path / f".{RUN_FILE}.new"
            new.write_text(text, encoding="utf-8")
            new.replace(self.path / RUN_FILE)
        except OSError as error:
            message = f"The checkpoint {self.path} cannot be written: {error}."
            raise StorageError(message, path=str(self.path)) from error

    def _read(self, name: str) -> str | None:
        try:
            return (self.path / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            message = f"The checkpoint {self.path} cannot be read: {error}."
            raise StorageError(message, path=str(self.path)) from error


def check_mark(checkpoint: Checkpoint, mark: SinkMark, *, in_batch: bool = False) -> SinkMark:
    """See that a checkpoint is this query's, and in its first batch make it so.

    A start says nothing: it may be a second one, which Spark refuses, beside a query whose first
    batch has not begun. Of two that are in a first batch the one that says so first goes on.

    Parameters
    ----------
    checkpoint : Checkpoint
        The folder.
    mark : SinkMark
        What the query is about to write to.
    in_batch : bool
        Whether this is said in a batch of the query, before anything is written.

    Returns
    -------
    SinkMark
        What stands in the checkpoint, or is to stand there.

    Raises
    ------
    InvalidInputError
        It is that of another query: of another table, output mode or source.
    """
    if not checkpoint.has_batches:
        return mark
    found = checkpoint.mark()
    if found is None and not checkpoint.has_done_batches:
        if not in_batch or checkpoint.put_mark(mark):
            return mark
        found = checkpoint.mark()
    table, where = mark.table, f"The checkpoint {checkpoint.path}"
    own = "Give this stream a checkpoint of its own"
    if found is None:
        message = (
            f"{where} belongs to a query that does not write to table '{table}' by write_stream:"
            f" {own}."
        )
    elif found.table != table:
        message = f"{where} belongs to a stream into table '{found.table}', not '{table}': {own}."
    elif found.created_ms != mark.created_ms:
        message = (
            f"{where} belongs to a stream into a table '{table}' that was dropped, and created anew"
            f" since. {own}, and it begins anew."
        )
    elif found.mode != mark.mode:
        message = (
            f"{where} belongs to a stream in mode '{found.mode}', not '{mark.mode}': {own}, or go"
            f" on with mode='{found.mode}'."
        )
    elif found.sources and mark.sources and found.sources != mark.sources:
        message = (
            f"{where} belongs to a stream that reads {', '.join(found.sources)}, not"
            f" {', '.join(mark.sources)}: {own}."
        )
    else:
        return found
    raise InvalidInputError(message, kind="checkpoint_of_another", table=table)
