"""Runs statements and writes their answers and errors."""

from __future__ import annotations

import os
import shutil
import textwrap
from collections.abc import Callable, Iterator
from itertools import chain
from time import perf_counter
from typing import TextIO

import pyarrow as pa

from tidelake.cli.engine import Engine
from tidelake.cli.output.formats import FORMATS, Row, live_lines, rows_of
from tidelake.cli.output.live_answer import LiveAnswer
from tidelake.cli.shell.pager import Pager
from tidelake.cli.shell.statement_text import split_texts
from tidelake.errors import TidelakeError
from tidelake.sql import parse
from tidelake.sql.parser.identifier_clause import with_plain_names
from tidelake.sql.syntax.ast import Statement
from tidelake.sql.syntax.tokens import without_secrets

RED, DIM, PLAIN = "\x1b[31m", "\x1b[2m", "\x1b[0m"


class Shell:
    """Runs statements and writes answers.

    Parameters
    ----------
    out, err : text files
        For answers, and for everything else.
    format : str
        Output format: a key of :data:`tidelake.cli.output.formats.FORMATS`.
    echo : bool
        Show each statement before it runs.
    timing : bool
        Show rows and seconds of each statement.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        out: TextIO,
        err: TextIO,
        format: str = "table",
        echo: bool = False,
        timing: bool = False,
        pager: Pager | None = None,
    ) -> None:
        self.engine = engine
        self.out = out
        self.err = err
        self.format = format
        self.echo = echo
        self.timing = timing
        self.pager = pager

    def run(self, text: str) -> bool:
        """Run the statements of a text up to the first error, and show the error.

        Returns
        -------
        bool
            True if all ran. A text that cannot be parsed does not run at all.
        """
        try:
            text, _ = with_plain_names(text)
            statements = parse(text)
            for statement, source in zip(statements, split_texts(text), strict=True):
                if self.echo:
                    self.say(self._dimmed(without_secrets(source)))
                self._run(statement, text)
        except TidelakeError as error:
            self.show_error(error)
            return False
        return True

    def say(self, line: str) -> None:
        """Write a line to the standard error."""
        self.err.write(f"{line}\n")
        self.err.flush()

    def show_error(self, error: TidelakeError) -> None:
        """Show an error."""
        word = f"{RED}error:{PLAIN}" if self._is_coloured else "error:"
        self.out.flush()
        width = shutil.get_terminal_size().columns if self.err.isatty() else None
        self.say(f"{word} {error_text(error, width)}")

    def _run(self, statement: Statement, text: str) -> None:
        began = perf_counter()
        answer = self.engine.answer(statement, text)
        if answer is None:
            rows, is_paged = "done", False
        elif isinstance(answer, pa.RecordBatchReader):
            rows, is_paged = self._write(answer)
        else:
            rows, is_paged = self._write_live(answer), False
        if self.timing:
            # the time in the pager is not the statement's
            seconds = "" if is_paged else f", {perf_counter() - began:.2f} s"
            self.say(self._dimmed(f"({rows}{seconds})"))

    def _write(self, answer: pa.RecordBatchReader) -> tuple[str, bool]:
        """Write an answer; return its number of rows, and True if the pager showed it."""
        counted = _Counted(rows_of(answer, self.engine.zone))
        lines = FORMATS[self.format](answer.schema, counted)
        is_paged = False
        if self.pager is not None:
            is_paged = self.pager.show(lines, self.out)
        else:
            _write_lines(lines, self.out.write)
        self.out.flush()
        return str(counted), is_paged

    def _write_live(self, answer: LiveAnswer) -> str:
        """Write changes as they come, until the stream ends or Ctrl-C; return their number."""
        zone = self.engine.zone
        with answer:
            batches = iter(answer)
            first = next(batches, None)
            if first is None:
                return "0 rows"
            every = chain.from_iterable(b.to_batches() for b in chain([first], batches))
            counted = _Counted(rows_of(every, zone))
            for line in live_lines(self.format, first.schema, counted, first_count=first.num_rows):
                self.out.write(f"{line}\n")
                self.out.flush()
        return str(counted)

    @property
    def _is_coloured(self) -> bool:
        return self.err.isatty() and "NO_COLOR" not in os.environ

    def _dimmed(self, text: str) -> str:
        return f"{DIM}{text}{PLAIN}" if self._is_coloured else text


class _Counted(Iterator[Row]):
    """Counts the rows of an iterator."""

    def __init__(self, rows: Iterator[Row]) -> None:
        self.count = 0
        self.is_all = False
        self._rows = rows

    def __str__(self) -> str:
        more = "" if self.is_all else "+"
        return f"{self.count:,}{more} {'row' if self.count == 1 and self.is_all else 'rows'}"

    def __next__(self) -> Row:
        try:
            row = next(self._rows)
        except StopIteration:
            self.is_all = True
            raise
        self.count += 1
        return row


def error_text(error: TidelakeError, width: int | None = None) -> str:
    r"""Wrap an error's message; indented lines, which show the statement, stay.

    Examples
    --------
    >>> error = TidelakeError("No column `a`. At line 1, column 8:\n  SELECT a\n         ^")
    >>> print(error_text(error, 32))
    No column `a`. At line 1,
    column 8:
      SELECT a
             ^
    """
    if width is None:
        return error.message
    lines = []
    for line in error.message.split("\n"):
        is_shown = line.startswith(" ")
        lines += [line] if is_shown else textwrap.wrap(line, width - len("error: ")) or [""]
    return "\n".join(lines)


def _write_lines(lines: Iterator[str], write: Callable[[str], object]) -> None:
    for line in lines:
        write(f"{line}\n")
