"""Shows answers larger than the screen in a pager."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import TextIO

from wcwidth import width as cell_width

PAGER_VARIABLE = "PAGER"
DEFAULT = "less"
LESS_FLAGS = "-SRFX"
"""Default of the variable LESS: no wrapping, and text that fits stays on the screen."""
LINES_KEPT = 3
"""Lines of the screen for the prompt and the line with rows and seconds."""


class Pager:
    """Writes lines that fit on the screen, and shows others in the user's pager.

    Parameters
    ----------
    size : callable
        Returns columns and lines of the screen.
    environ : mapping
        May have ``PAGER`` and ``LESS``.
    """

    def __init__(
        self,
        size: Callable[[], os.terminal_size] = shutil.get_terminal_size,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self._size = size
        self._environ = environ

    def show(self, lines: Iterator[str], out: TextIO) -> bool:
        """Show lines; return True if the pager showed them.

        Parameters
        ----------
        lines : iterator of str
            Lines without line ends, read only as far as the pager does.
        """
        columns, height = self._size()
        first: list[str] = []
        fits = True
        for line in lines:
            first.append(line)
            fits = cell_width(line) <= columns and len(first) <= height - LINES_KEPT
            if not fits:
                break
        command = None if fits else self._command()
        if command is None:
            for line in chain(first, lines):
                out.write(f"{line}\n")
            return False
        out.flush()
        _feed(command, chain(first, lines), self._environ)
        return True

    def _command(self) -> list[str] | None:
        wanted = shlex.split(self._environ.get(PAGER_VARIABLE, DEFAULT)) or [DEFAULT]
        return wanted if shutil.which(wanted[0]) else None


def _feed(command: list[str], lines: Iterator[str], environ: Mapping[str, str]) -> None:
    settings = {"LESS": LESS_FLAGS, **environ}
    pager = subprocess.Popen(command, stdin=subprocess.PIPE, text=True, env=settings)
    assert pager.stdin is not None
    with suppress(BrokenPipeError, KeyboardInterrupt):  # the user left the pager
        for line in lines:
            pager.stdin.write(f"{line}\n")
    with suppress(BrokenPipeError):
        pager.stdin.close()
    while pager.poll() is None:
        with suppress(KeyboardInterrupt):  # Ctrl-C goes to the pager
            pager.wait()
