"""Names of processes that others on the same machine can tell to have ended.

A name is made of the machine's boot, the namespace of process ids, the process id and the time at
which the process began, so that neither a restart nor a process id that comes again is mistaken.
It is told by ``/proc``; where there is none, names are empty and nobody is known to have ended.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["has_ended", "process_name"]

_START_FIELD = 19
"""Of ``/proc/<pid>/stat``, counted behind the name in brackets: ``starttime``."""


def process_name(pid: int | None = None) -> str:
    """The name of a process, by default of this one; empty where the system does not tell.

    Examples
    --------
    >>> has_ended(process_name())
    False
    """
    here = _here()
    pid = os.getpid() if pid is None else pid
    began = _began(pid)
    return f"{here}/{pid}/{began}" if here and began else ""


def has_ended(name: str) -> bool:
    """Whether a process certainly runs no more: of this machine, and not found."""
    here, _, rest = name.rpartition("/")[0].rpartition("/")
    began = name.rpartition("/")[2]
    if not here or here != _here() or not rest.isdigit():
        return False
    found = _began(int(rest))
    return _is_gone(int(rest)) if found is None else found != began


def _here() -> str:
    """Name the boot of the machine, and the namespace in which its processes are numbered."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _began(pid: int) -> str | None:
    """When a process began, in ticks since the boot; empty of one that ended, None if unknown."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    is_zombie = fields[:1] in (["Z"], ["X"])
    return "" if is_zombie or len(fields) <= _START_FIELD else fields[_START_FIELD]


def _is_gone(pid: int) -> bool:
    """Whether the kernel has no such process.

    That its file could not be read says little: ``hidepid`` hides those of other users, and a
    process may be out of file descriptors.
    """
    try:
        os.kill(pid, 0)  # no signal: only the check
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # it is another user's, or no number of a process
        return False
    return False
