"""The checkpoint of a Spark query, as far as a sink needs it.

Spark keeps its own files in the folder: ``metadata`` with the query's id, ``offsets/N`` when batch
N begins, ``commits/N`` when it is done. The sink adds ``tidelake-sink.json``, which names the table
that the query writes to. A query whose batches went to one table must not go on with another table,
which would lack the rows of the earlier batches.

The folder may be a path, or lie in a store (:mod:`tidelake.spark.streams.write.checkpoint_folder`).
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from pyspark.sql import SparkSession

from tidelake.errors import CorruptError, InvalidInputError, UnsupportedError
from tidelake.spark.streams.write.checkpoint_folder import CheckpointFolder, LocalFolder
from tidelake.spark.streams.write.hadoop_folder import HadoopFolder

MARK_FILE = "tidelake-sink.json"
RUN_FILE = "tidelake-run.json"
VERSION = 1
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_LOCAL = re.compile(r"^[Ff][Ii][Ll][Ee]:(//[^/]*(?=/))?")


@dataclass(frozen=True, slots=True)
class SinkMark:
    """The target of a checkpoint's query.

    Parameters
    ----------
    table : str
        ``"database.table"``, for messages.
    created_ms : int
        When the table was created, ms since the epoch. A table created again under the name is
        another one.
    schema_id : int
        The table's schema when the query first began; columns that it lacked are null.
    sources : tuple of str
        The sources of the query, as Spark shows them; empty where unknown.
    """

    table: str
    created_ms: int
    mode: str
    schema_id: int
    sources: tuple[str, ...] = ()

    def to_json(self) -> str:
        """Write the text of the file."""
        return json.dumps({"v": VERSION, **asdict(self)}, indent=1)

    @classmethod
    def from_json(cls, text: str, *, path: str) -> Self:
        """Read the text of the file.

        Raises
        ------
        CorruptError
            The text is damaged, or of a later version.
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
    """The checkpoint folder of a Spark query."""

    folder: CheckpointFolder

    @classmethod
    def of(
        cls,
        given: str | Path | None,
        *,
        table: str,
        spark: SparkSession | None = None,
        may_rename: bool = True,
    ) -> Self:
        """Check the folder that the caller names.

        Parameters
        ----------
        spark : SparkSession, optional
            The classic session of the query; without it a folder in a store is refused.
        may_rename : bool
            Whether Spark gets :attr:`uri`, rather than what the caller named.

        Raises
        ------
        InvalidInputError
            None is named. There is no default: if the folder were missing at the next start, the
            stream would begin again and write its rows twice. Or it holds credentials.
        UnsupportedError
            It is in a store, and Spark has no class for it, or the store is not reached from here.
        """
        if given is None or not str(given).strip():
            message = (
                f"A stream into table '{table}' needs checkpoint=, or the option"
                " 'checkpointLocation': a folder of its own that outlives this process. There Spark"
                " records the stream's progress, so that a restart loses and repeats no rows."
            )
            raise InvalidInputError(message, kind="no_checkpoint", table=table)
        text = str(given)
        scheme = _SCHEME.match(text)
        if scheme is None:
            path = Path(text).expanduser() if may_rename else Path(text)
        elif scheme[1].lower() == "file":
            path = Path(_LOCAL.sub("", text))  # as it stands, as Hadoop reads it: "%20" is no blank
        else:
            return cls(_in_store(text, table=table, spark=spark, may_rename=may_rename))
        return cls(LocalFolder(path.absolute()))

    @property
    def uri(self) -> str:
        """The folder as Spark's option takes it."""
        return self.folder.uri

    @property
    def shown(self) -> str:
        """The folder in messages."""
        return self.folder.shown

    def query_id(self) -> str | None:
        """The query's id, equal in all of its runs; None before its first run.

        Raises
        ------
        InvalidInputError
            The checkpoint is no folder.
        CorruptError
            The file that holds it is damaged.
        """
        text = self.folder.read("metadata")
        if text is None:
            return None
        try:
            return str(json.loads(text)["id"])
        except (ValueError, KeyError, TypeError) as error:
            path = f"{self.shown}/metadata"
            message = f"{path} is damaged: {error}. Begin with a new checkpoint."
            raise CorruptError(message, kind="checkpoint_damaged", path=path) from error

    @property
    def has_batches(self) -> bool:
        """Whether a batch of the query has begun."""
        return self._has_entries("offsets")

    @property
    def has_done_batches(self) -> bool:
        """Whether Spark has recorded a batch of the query as done."""
        return self._has_entries("commits")

    @property
    def has_state(self) -> bool:
        """Whether the query keeps state: windows, joins, aggregations."""
        return self._has_entries("state")

    def _has_entries(self, name: str) -> bool:
        return any(entry.isdecimal() for entry in self.folder.names(name))

    def remove_torn_start(self) -> None:
        """Remove the temporary files of a run that was killed before its first batch began.

        Spark refuses a folder with such files but no batch (4.3:
        ``STATE_STORE_CHECKPOINT_LOCATION_NOT_EMPTY``), even if it has read no rows.
        """
        if self.has_batches:
            return
        for folder in ("offsets", "commits"):
            for name in self.folder.names(folder):
                if name.startswith(".") and name.removesuffix(".crc").endswith(".tmp"):
                    self.folder.remove(f"{folder}/{name}")

    def is_done(self, batch_id: int) -> bool:
        """Whether Spark has recorded a batch as done, so that it never repeats it."""
        return self.folder.has(f"commits/{batch_id}")

    @property
    def is_between_batches(self) -> bool:
        """Whether each batch that began is done."""
        began, done = (
            max((int(name) for name in self.folder.names(folder) if name.isdecimal()), default=-1)
            for folder in ("offsets", "commits")
        )
        return began == done

    def watermark_before(self, batch_id: int) -> int | None:
        """Give the stream's watermark when a batch began, ms since the epoch; None without one.

        The second line of ``offsets/N`` holds it.
        """
        text = self.folder.read(f"offsets/{batch_id}")
        lines = [] if text is None else text.splitlines()
        try:
            found = int(json.loads(lines[1])["batchWatermarkMs"])
        except (ValueError, KeyError, TypeError, IndexError):
            return None
        return found or None

    def mark(self) -> SinkMark | None:
        """Read the mark; None if no sink has written one."""
        text = self.folder.read(MARK_FILE)
        return None if text is None else SinkMark.from_json(text, path=f"{self.shown}/{MARK_FILE}")

    def put_mark(self, mark: SinkMark) -> bool:
        """Write the mark atomically; False if there is one already."""
        return self.folder.put_new(MARK_FILE, mark.to_json())

    def run_term(self) -> int:
        """Read the term of the run in this folder; 0 for a new or a copied folder."""
        text = self.folder.read(RUN_FILE)
        try:
            found = {} if text is None else json.loads(text)
            return int(found["term"]) if found.get("folder") == self.shown else 0
        except (ValueError, KeyError, TypeError, AttributeError):  # a crash tore it
            return 0

    def put_run_term(self, term: int) -> None:
        """Record the term of the run in this folder."""
        text = json.dumps({"v": VERSION, "folder": self.shown, "term": term})
        self.folder.replace(RUN_FILE, text)


def _in_store(
    given: str, *, table: str, spark: SparkSession | None, may_rename: bool
) -> HadoopFolder:
    """Find the folder of a URI."""
    scheme, parted, rest = given.partition("://")
    authority = rest.partition("/")[0]
    if "@" in authority and not scheme.lower().startswith(("abfs", "wasb")):
        message = (
            f"The checkpoint {scheme}://... of a stream into table '{table}' holds '@' before its"
            " path: credentials do not belong into a URI; give them in Hadoop's settings."
        )
        raise InvalidInputError(message, kind="checkpoint_storage", table=table)
    if not parted:
        message = (
            f"The checkpoint {given} of a stream into table '{table}' is no URI: write it as"
            " scheme://bucket/folder, or give a path."
        )
        raise InvalidInputError(message, kind="checkpoint_storage", table=table)
    if spark is None or not hasattr(spark, "_jsparkSession"):
        message = (
            f"The checkpoint {given} of a stream into table '{table}' is in a store, which Spark"
            " Connect and format('tidelake') do not reach. Give a path that the driver sees, or"
            f" write by tl.write_stream(frame, '{table}', checkpoint=...) of a classic session."
        )
        raise UnsupportedError(message, kind="checkpoint_storage", table=table)
    return HadoopFolder.of(spark, given, table=table, may_rename=may_rename)


def check_mark(checkpoint: Checkpoint, mark: SinkMark, *, in_batch: bool = False) -> SinkMark:
    """Check that a checkpoint belongs to this query; in the first batch, write its mark.

    A start writes no mark: Spark may refuse it as a second one beside a query whose first batch has
    not begun. Of two queries in their first batch, the first one to write its mark goes on.

    Parameters
    ----------
    in_batch : bool
        Whether a batch of the query makes the call, before it writes rows.

    Returns
    -------
    SinkMark
        The mark in the checkpoint, or the one that it will get.

    Raises
    ------
    InvalidInputError
        The checkpoint belongs to another query: of another table, output mode or source.
    """
    if not checkpoint.has_batches:
        return mark
    found = checkpoint.mark()
    if found is None and not checkpoint.has_done_batches:
        if not in_batch or checkpoint.put_mark(mark):
            return mark
        found = checkpoint.mark()
    table, where = mark.table, f"The checkpoint {checkpoint.shown}"
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
            f"{where} belongs to a stream into a table '{table}' that was dropped and has been"
            f" created again. {own}, and it begins again."
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
