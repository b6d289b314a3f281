"""The steps of a query's sink: what each batch covers, and the last commit, in the checkpoint.

Spark writes the offsets of batch N into ``offsets/N`` before the batch runs. The sink reads them
there: a commit keeps a digest of them (:mod:`tidelake.commit.stream_step`). After each commit it
writes ``tidelake-commit.json``: number, snapshot and digest of the batch. The file is in the
checkpoint, and not in the table: a copy of the checkpoint has the commit of its own time.

Cost of a batch: one read of a small file, and a write of one if the batch made a snapshot.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from tidelake.engine.streams import Covered, MadeCommit, StreamStep
from tidelake.errors import CorruptError
from tidelake.spark.streams.write.checkpoint import Checkpoint

COMMIT_FILE = "tidelake-commit.json"
FILE_LOG_KEY = "logOffset"
"""The only key of the offset of Spark's file source."""
HEAD_LINES = 2
"""Lines of ``offsets/N`` before the offsets: its version, and the batch's watermark and time."""


@dataclass(slots=True)
class SinkSteps:
    """The steps of one run of a query. For one thread at a time."""

    checkpoint: Checkpoint
    _last: tuple[int, str] | None = field(default=None, init=False)
    """Number and offsets of the batch before, as read."""
    _made: MadeCommit | None = field(default=None, init=False)
    _has_read: bool = field(default=False, init=False)

    def step(self, batch_id: int) -> StreamStep | None:
        """What a batch covers, and the commit before it; None if its offsets are not there.

        Raises
        ------
        CorruptError
            The file of the last commit is damaged.
        StorageError
            The checkpoint cannot be read.
        """
        end = self._offsets(batch_id)
        if end is None:
            return None
        begin: str | None = ""
        if batch_id:
            known = self._last
            is_known = known is not None and known[0] == batch_id - 1
            begin = known[1] if known is not None and is_known else self._offsets(batch_id - 1)
        self._last = batch_id, end
        return StreamStep(Covered.between(begin, end), self.made)

    @property
    def made(self) -> MadeCommit | None:
        """The last commit of the query; None before its first, or if an older version made it."""
        if not self._has_read:
            text = self.checkpoint.folder.read(COMMIT_FILE)
            try:
                # a kill may leave an empty file on a storage that cannot replace one at once
                self._made = MadeCommit.from_json(text) if text else None
            except ValueError as error:
                path = f"{self.checkpoint.shown}/{COMMIT_FILE}"
                message = (
                    f"{path} is damaged: {error}. Restore it, or remove this file: then nothing"
                    " tells whether the table was rolled back since the last batch."
                )
                raise CorruptError(message, kind="checkpoint_damaged", path=path) from error
            self._has_read = True
        return self._made

    def done(self, made: MadeCommit | None) -> None:
        """Record the commit of a batch, before Spark notes the batch as done."""
        if made is None or made == self.made:
            return
        self.checkpoint.folder.replace(COMMIT_FILE, made.to_json())
        self._made = made

    def _offsets(self, batch_id: int) -> str | None:
        """The offsets of all sources, a line for each, in one spelling."""
        text = self.checkpoint.folder.read(f"offsets/{batch_id}")
        lines = [] if text is None else text.splitlines()[HEAD_LINES:]
        return "\n".join(self._spelled(n, line) for n, line in enumerate(lines)) or None

    def _spelled(self, source: int, line: str) -> str:
        """Spell an offset in one way: the order of the keys of a JSON object says nothing.

        The offset of Spark's file source is only a number in a log of its own, beside the others:
        the files that the log has under that number stand for it.
        """
        try:
            offset = json.loads(line)
        except ValueError:
            return line
        number = offset.get(FILE_LOG_KEY) if isinstance(offset, dict) else None
        if isinstance(number, int) and len(offset) == 1:
            return f"{line} {self._files(source, number)}"
        return json.dumps(offset, sort_keys=True)

    def _files(self, source: int, number: int) -> str:
        """The entries of a file source's log under a number, which may be in a compacted file."""
        folder, name = self.checkpoint.folder, f"sources/{source}/{number}"
        text = folder.read(name) or folder.read(f"{name}.compact") or ""
        found = [json.loads(entry) for entry in text.splitlines() if entry.startswith("{")]
        own = [json.dumps(e, sort_keys=True) for e in found if e.get("batchId") == number]
        return " ".join(sorted(own))
