"""The prompt: lines with completion, history and colours, by prompt_toolkit.

Enter ends what was typed where a semicolon does, and begins another line where none does. Ctrl-C
at the prompt forgets the statement, Ctrl-D leaves.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.lexers import PygmentsLexer
from prompt_toolkit.output import Output
from pygments.lexers.sql import SqlLexer

from tidelake.cli.shell.completion import completions
from tidelake.cli.shell.statement_text import is_command, is_complete
from tidelake.sql.execution.session import DEFAULT_DATABASE, SqlSession

__all__ = ["Terminal", "history_path"]

STATE_VARIABLE = "XDG_STATE_HOME"


def history_path(environ: Mapping[str, str] = os.environ) -> Path:
    """Where lines are kept, where the command line does not say it."""
    base = environ.get(STATE_VARIABLE)
    return (Path(base) if base else Path.home() / ".local" / "state") / "tidelake" / "history"


class Terminal:
    """Reads statements from a person.

    Parameters
    ----------
    session : SqlSession
        What is completed, and the current database for the prompt.
    history : Path, optional
        The file of former lines, :func:`history_path` by default; where it cannot be written, they
        last as long as the program.
    input, output : optional
        Of prompt_toolkit; the terminal by default.
    """

    def __init__(
        self,
        session: SqlSession,
        *,
        history: Path | None = None,
        input: Input | None = None,
        output: Output | None = None,
    ) -> None:
        self._session = session
        self._prompt: PromptSession[str] = PromptSession(
            message=self._message,
            prompt_continuation=_continuation,
            multiline=True,
            history=_history(history or history_path()),
            completer=_SqlCompleter(session),
            complete_while_typing=False,
            auto_suggest=AutoSuggestFromHistory(),
            lexer=PygmentsLexer(SqlLexer),
            key_bindings=_keys(),
            input=input,
            output=output,
        )

    def read(self) -> str:
        """Read what is typed up to a semicolon, or a command of the program.

        Raises
        ------
        EOFError
            Ctrl-D.
        KeyboardInterrupt
            Ctrl-C.
        """
        return self._prompt.prompt()

    def _message(self) -> str:
        session = self._session
        catalog = f"{session.catalog_name}." if len(session.catalogs) > 1 else ""
        return f"{catalog}{session.database or DEFAULT_DATABASE}> "


def _continuation(width: int, line_number: int, is_soft_wrap: int) -> str:
    del line_number, is_soft_wrap
    return "> ".rjust(width)


def _history(path: Path) -> History:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with path.open("ab"):
            pass
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path))


def _keys() -> KeyBindings:
    keys = KeyBindings()

    def enter(event: Any) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion:
            buffer.complete_state = None  # takes what is chosen
            return
        text = buffer.document.text
        if not text.strip() or is_command(text) or is_complete(text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    keys.add("enter")(enter)
    return keys


class _SqlCompleter(Completer):  # type: ignore[misc]  # not looked into: it is of an extra
    """Words that may stand at the cursor."""

    def __init__(self, session: SqlSession) -> None:
        self._session = session

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Give them."""
        del complete_event
        before = document.text_before_cursor
        for word, length, what in completions(before, document.text, self._session):
            yield Completion(word, start_position=-length, display_meta=what)
