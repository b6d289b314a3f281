"""A Java Paimon that is talked to: one process, one request after another (``java/Peer.java``).

Where ``readers.py`` asks for everything at once, this is for programs whose next step depends on
the last answer: each request is a line of JSON to the process, each answer ends with a line that
says what became of it.
"""

from __future__ import annotations

import itertools
import json
import selectors
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from interop.cells import Cell
from interop.readers import JavaCore

ANSWER_S_MAX = 120
"""A request that takes longer counts as hung; the process is ended."""


class PeerError(Exception):
    """The other engine refuses or fails; its own words."""


class JavaPeer:
    """A running Java Paimon. To be used with ``with``.

    Parameters
    ----------
    java : JavaCore
        Made ready.
    """

    def __init__(self, java: JavaCore) -> None:
        self._java = java
        self._scratch = tempfile.TemporaryDirectory(prefix="interop-peer-")
        self._errors = Path(self._scratch.name, "errors").open("w+b")  # noqa: SIM115 - lives as long as the process
        self._process = subprocess.Popen(
            java.talk(Path(self._scratch.name, "spill")),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            bufsize=0,
        )
        self._numbers = itertools.count()
        self._buffer = b""
        self._ready = selectors.DefaultSelector()
        self._ready.register(self._process.stdout, selectors.EVENT_READ)

    def __enter__(self) -> JavaPeer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def version(self) -> str:
        """The reader's name."""
        return self._java.name

    @property
    def is_running(self) -> bool:
        """Whether it can be asked; one that did not answer was ended."""
        return self._process.poll() is None

    def fresh(self) -> JavaPeer:
        """Another process of the same Java, which has met no table yet."""
        return JavaPeer(self._java)

    def close(self) -> None:
        """End the process."""
        self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._ready.close()
        self._errors.close()
        self._scratch.cleanup()

    def do(self, op: str, table: Path, **more: Any) -> int | None:
        """Change a table; the newest snapshot's id where the request gives one.

        Raises
        ------
        PeerError
            Java refused, or did not answer.
        """
        answer = self._ask({"op": op, "table": str(table), **more})
        return self._checked(answer[-1]).get("snapshot")

    def copy(
        self, source: Path, table: Path, *, keep: bool = False, full: bool = False
    ) -> dict[str, Any]:
        """Write another table's rows in one commit.

        Parameters
        ----------
        source, table : Path
            From the one into the other.
        keep : bool
            Whether the writer stays open for the next commit, as that of a running job does.
        full : bool
            Whether a full compaction goes with the commit.

        Returns
        -------
        dict
            ``rows``, and the ``cpu`` and ``wall`` seconds of writing and committing them.

        Raises
        ------
        PeerError
            Java refused, or did not answer.
        """
        asked = {"op": "copy", "table": str(table), "from": str(source), "keep": keep, "full": full}
        return self._checked(self._ask(asked)[-1])

    def lookup(
        self,
        table: Path,
        keys: Sequence[Sequence[Cell]],
        *,
        snapshot: int,
        options: Mapping[str, str] | None = None,
        times: int = 1,
    ) -> tuple[list[tuple[Cell, ...] | None], dict[str, Any]]:
        """Rows by key from Java's ``LocalTableQuery``.

        Parameters
        ----------
        table : Path
            Of the table.
        keys : sequence of sequences of cells
            In the order of the primary key.
        snapshot : int
            At which they are looked up.
        options : mapping
            Of this reading.
        times : int
            How often all keys are asked for.

        Returns
        -------
        rows : list of tuple or None
            One for each key; None where there is no row.
        figures : dict
            Files on ``level0``, which Java passes over in tables that need lookups; ``cpu`` and
            ``wall`` seconds of each round.

        Raises
        ------
        PeerError
            Java refused the table, or did not answer.
        """
        lines = self._ask(
            {
                "op": "lookup",
                "table": str(table),
                "keys": [list(key) for key in keys],
                "snapshot": snapshot,
                "options": dict(options or {}),
                "times": times,
            }
        )
        figures = self._checked(lines[-1])
        return [tuple(cells) or None for cells in lines[:-1]], figures

    def ask(self, op: str, **more: Any) -> dict[str, Any]:
        """What Java answers to a request in one line.

        Raises
        ------
        PeerError
            Java refused, or did not answer.
        """
        return self._checked(self._ask({"op": op, **more})[-1])

    def statistics(self, table: Path) -> str:
        """What Java makes of a table's statistics, as one text."""
        return str(self._checked(self._ask({"op": "statistics", "table": str(table)})[-1])["text"])

    def read(
        self, table: Path, options: Mapping[str, str] | None = None, *, system: str | None = None
    ) -> tuple[list[str], list[tuple[Cell, ...]]]:
        """Read a table, or one of its system tables; columns and rows."""
        more = {} if system is None else {"system": system}
        lines = self._ask(
            {"op": "read", "table": str(table), "options": dict(options or {}), **more}
        )
        self._checked(lines[-1])
        rows = []
        for kind, *cells in lines[1:-1]:
            if kind not in {"+I", "+U"}:
                message = f"a row of kind {kind} came out of a batch read"
                raise PeerError(message)
            rows.append(tuple(cells))
        return lines[0]["columns"], rows

    @staticmethod
    def _checked(last: dict[str, Any]) -> dict[str, Any]:
        if "error" in last:
            raise PeerError(last["error"])
        return last

    def _ask(self, request: Mapping[str, Any]) -> Sequence[Any]:
        line = json.dumps({"id": str(next(self._numbers)), **request}, ensure_ascii=False)
        try:
            self._process.stdin.write(line.encode() + b"\n")
        except BrokenPipeError as error:
            raise PeerError(self._last_words()) from error
        lines = []
        while True:
            value = json.loads(self._line())
            lines.append(value)
            # rows are lists; an object without columns is the end
            if isinstance(value, dict) and "columns" not in value:
                return lines

    def _line(self) -> bytes:
        while b"\n" not in self._buffer:
            if not self._ready.select(ANSWER_S_MAX):
                self._process.kill()
                message = f"no answer within {ANSWER_S_MAX} seconds"
                raise PeerError(message)
            more = self._process.stdout.read(1 << 16)
            if not more:
                raise PeerError(self._last_words())
            self._buffer += more
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _last_words(self) -> str:
        self._errors.seek(0)
        return f"the process ended: {self._errors.read()[-600:].decode(errors='replace')}"
