"""The errors Tidelake raises: one root, classes by what the handler does with them.

A handler never needs to parse a message: the class says what to do (retry, ask for something
else, give up), ``kind`` says which case it was, and ``context`` names the table, snapshot, path,
column or option concerned. Messages end with what to do.

``kind`` values are append-only: a kind once released keeps its meaning.

In a notebook, an error that names the caller's own mistake shows only the caller's lines. A hundred
lines of our frames would hide the message.
"""

from __future__ import annotations

import copy
import difflib
import sys
import sysconfig
import traceback
from collections.abc import Iterable
from types import TracebackType
from typing import Any

__all__ = [
    "TEXT_SHOWN_MAX",
    "AlreadyExistsError",
    "ClosedError",
    "ConflictError",
    "CorruptError",
    "InvalidInputError",
    "NotEnoughMemoryError",
    "NotFoundError",
    "OutcomeUnknownError",
    "StorageError",
    "StorageRefusedError",
    "TidelakeError",
    "UnsupportedError",
    "counted",
    "near_names",
    "not_enough_memory",
    "shortened",
]


class TidelakeError(Exception):
    """Root of all errors that Tidelake raises on purpose.

    Parameters
    ----------
    message : str
        One or two sentences: what is wrong, where, and what to do.
    kind : str
        Stable identifier of the case, e.g. ``"table_not_found"``.
    **context : object
        What the error is about: ``table=``, ``snapshot=``, ``path=``, ``column=``, ``option=``.
    """

    default_kind = "error"
    shows_own_frames = True
    """Whether a notebook shows Tidelake's own frames; not for a caller's own mistake."""

    def __init__(self, message: str, *, kind: str | None = None, **context: object) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind or self.default_kind
        self.context = context

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[object, ...]:
        # Errors travel from Spark executors by pickle; keyword-only arguments need help.
        return (_rebuild, (type(self), self.message, self.kind, self.context))

    def _render_traceback_(self) -> list[str]:
        """Give the lines that IPython and Jupyter show for this error: their protocol.

        ``%xmode Verbose`` shows all frames and causes of any error.
        """
        shell = _notebook_shell()
        frames = self.__traceback__
        if self.shows_own_frames or (shell is not None and shell.InteractiveTB.mode == "Verbose"):
            return _formatted(shell, self, frames)
        # a copy drops cause and context: those are our frames too, and the message says it all
        return _formatted(shell, copy.copy(self), _callers_frames(frames))


def _rebuild(
    cls: type[TidelakeError], message: str, kind: str, context: dict[str, object]
) -> TidelakeError:
    return cls(message, kind=kind, **context)


def _notebook_shell() -> Any:
    """The running IPython shell, if there is one; only modules already loaded are asked."""
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()


def _formatted(
    shell: Any,
    error: BaseException,
    frames: TracebackType | None,
) -> list[str]:
    if shell is None:
        return traceback.format_exception(type(error), error, frames)
    # the first frame is the shell's own, which calls the cell
    lines: list[str] = shell.InteractiveTB.structured_traceback(
        type(error), error, frames, tb_offset=1
    )
    return lines


def _callers_frames(frames: TracebackType | None) -> TracebackType | None:
    """Leave out our frames, and those of libraries that we called."""
    paths = sysconfig.get_paths()
    libraries = tuple(paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    kept: list[TracebackType] = []
    within = False
    while frames is not None:
        frame = frames.tb_frame
        ours = str(frame.f_globals.get("__name__")).partition(".")[0] == "tidelake"
        within = within or ours
        if not ours and not (within and frame.f_code.co_filename.startswith(libraries)):
            kept.append(frames)
        frames = frames.tb_next
    rest: TracebackType | None = None
    for part in reversed(kept):
        rest = TracebackType(rest, part.tb_frame, part.tb_lasti, part.tb_lineno)
    return rest


class ConflictError(TidelakeError):
    """Another writer changed what this commit depends on: re-read the table and write again."""

    default_kind = "conflict"


class NotFoundError(TidelakeError, KeyError):
    """A database, table, snapshot, tag, column or file that is not there."""

    default_kind = "not_found"
    shows_own_frames = False


class AlreadyExistsError(TidelakeError):
    """Something of that name is already there."""

    default_kind = "already_exists"
    shows_own_frames = False


class InvalidInputError(TidelakeError, ValueError):
    """The caller's data, name, option or argument is wrong; nothing was written."""

    default_kind = "invalid_input"
    shows_own_frames = False


class UnsupportedError(TidelakeError):
    """A valid Paimon feature that this version does not cover; nothing was written or read."""

    default_kind = "unsupported"
    shows_own_frames = False


class CorruptError(TidelakeError):
    """A file of the table is damaged, truncated or not what its metadata says."""

    default_kind = "corrupt"


class StorageError(TidelakeError):
    """The storage refused or failed; the operation did not take effect and may be tried again."""

    default_kind = "storage"


class StorageRefusedError(StorageError):
    """The storage refused and changed nothing: correct what it names before trying again.

    After any other storage error a change may have taken effect, and a retry may help. After this
    one a retry alone does not help.
    """


class NotEnoughMemoryError(TidelakeError, MemoryError):
    """Memory ran out. Nothing is damaged: try again with more memory or in smaller pieces."""

    default_kind = "memory"


class OutcomeUnknownError(StorageError):
    """The storage failed after the commit began to publish: it may or may not be visible.

    Nothing was deleted. Writing again with the same commit user and identifier is safe: a commit
    that did take effect is recognised and not applied twice.
    """

    default_kind = "outcome_unknown"


class ClosedError(TidelakeError):
    """A writer, reader or session was used after it was closed."""

    default_kind = "closed"
    shows_own_frames = False


def not_enough_memory(path: str, reason: object) -> NotEnoughMemoryError:
    """Make the error for memory that ran out while a file was read.

    Parameters
    ----------
    path : str
        The file.
    reason : object
        What the allocator said; may be empty.

    Examples
    --------
    >>> error = not_enough_memory("/w/db.db/t/bucket-0/data-1.orc", "malloc of size 640 failed")
    >>> error.message.partition(". ")[0]
    'Memory ran out while /w/db.db/t/bucket-0/data-1.orc was read (malloc of size 640 failed)'
    """
    said = f" ({shortened(str(reason))})" if str(reason) else ""
    message = (
        f"Memory ran out while {path} was read{said}. Give the catalog a smaller budget,"
        ' tidelake.open(..., memory="256 mb"), or give the process more memory.'
    )
    return NotEnoughMemoryError(message, path=path)


TEXT_SHOWN_MAX = 200
"""Characters of a user's own text that a message repeats."""


def shortened(text: str, length_max: int = TEXT_SHOWN_MAX) -> str:
    """Cut a text that is too long for a message; an ellipsis stands for the rest.

    Examples
    --------
    >>> shortened("a > 1 AND b IN (1, 2, 3, 4)", 12)
    'a > 1 AND...'
    """
    return text if len(text) <= length_max else text[: length_max - 3] + "..."


def counted(count: int, noun: str) -> str:
    """Name how many there are, with a plural in -s.

    Examples
    --------
    >>> counted(1, "column"), counted(2, "column")
    ('1 column', '2 columns')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def near_names(name: str, candidates: Iterable[str]) -> str:
    """Name the known names near a misspelt one, as a sentence for a message.

    Parameters
    ----------
    name : str
        What the user wrote.
    candidates : iterable of str
        The names that exist.

    Returns
    -------
    str
        ``" Did you mean 'a' or 'b'?"`` with a leading space, or ``""`` where nothing is near.

    Examples
    --------
    >>> near_names("bukcet", ["bucket", "path"])
    " Did you mean 'bucket'?"
    >>> near_names("ID", ["id", "idx"])
    " Did you mean 'id'?"
    >>> near_names("x", ["bucket"])
    ''
    """
    known = list(dict.fromkeys(candidates))
    near = [n for n in known if n.casefold() == name.casefold()]
    near = near or difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    if not near:
        return ""
    return " Did you mean " + " or ".join(f"'{n}'" for n in near) + "?"
