"""The prompt, with completion, history and colours, by prompt_toolkit.

Enter runs the input if a semicolon ends it, and begins another line if not. Ctrl-C clears the
input, Ctrl-D exits.
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
from tidelake.sql.syntax.tokens import without_secrets

STATE_VARIABLE = "XDG_STATE_HOME"


def history_path(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the default history file."""
    base = environ.get(STATE_VARIABLE)
    return (Path(base) if base else Path.home() / ".local" / "state") / "tidelake" / "history"


class Terminal:
    """Reads statements interactively.

    Parameters
    ----------
    history : Path, optional
        History file, :func:`history_path` by default; if it cannot be written, the history is kept
        in memory.
    input, output : optional
        prompt_toolkit's; the terminal by default.
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
        """Read a statement up to its semicolon, or a command.

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
    return _SecretFreeHistory(str(path))


class _SecretFreeHistory(FileHistory):  # type: ignore[misc]  # the library is optional
    """A history file that keeps statements without the values of secret options."""

    def store_string(self, string: str) -> None:
        """Append one statement."""
        super().store_string(without_secrets(string))


def _keys() -> KeyBindings:
    keys = KeyBindings()

    def enter(event: Any) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion:
            buffer.complete_state = None  # accept the selected completion
            return
        text = buffer.document.text
        if not text.strip() or is_command(text) or is_complete(text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    keys.add("enter")(enter)
    return keys


class _SqlCompleter(Completer):  # type: ignore[misc]  # a library of an extra
    """Completions for prompt_toolkit."""

    def __init__(self, session: SqlSession) -> None:
        self._session = session

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """Yield the completions at the cursor."""
        del complete_event
        before = document.text_before_cursor
        for word, length, what in completions(before, document.text, self._session):
            yield Completion(word, start_position=-length, display_meta=what)
