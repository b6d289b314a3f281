"""Names processes, so that others on the same machine can find out that they have ended.

A name is made of the machine's boot, the namespace of process ids, the process id and the time at
which the process began, so that neither a restart nor a reused process id confuses it. ``/proc``
gives them. Without it names are empty, and no process counts as ended.
"""

from __future__ import annotations

import os
from pathlib import Path

from tidelake.telemetry.fork import PerProcess

_START_FIELD = 19
"""Index of ``starttime`` in ``/proc/<pid>/stat``, counted behind the name in brackets."""


def process_name(pid: int | None = None) -> str:
    """Return the name of a process, by default of this one; empty if unknown.

    Examples
    --------
    >>> has_ended(process_name())
    False
    """
    return _OWN.value if pid is None else _name_of(pid)


def _name_of(pid: int) -> str:
    here, began = _here(), _began(pid)
    return f"{here}/{pid}/{began}" if here and began else ""


def has_ended(name: str) -> bool:
    """Whether a process of this machine has certainly ended."""
    here, _, rest = name.rpartition("/")[0].rpartition("/")
    began = name.rpartition("/")[2]
    if not here or here != _here() or not rest.isdigit():
        return False
    found = _began(int(rest))
    return _is_gone(int(rest)) if found is None else found != began


def _here() -> str:
    """Name the boot of the machine and the namespace of process ids."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot}/{Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _began(pid: int) -> str | None:
    """Return a process's start, in ticks since the boot; empty if it has ended, None if unknown."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()
    is_zombie = fields[:1] in (["Z"], ["X"])
    return "" if is_zombie or len(fields) <= _START_FIELD else fields[_START_FIELD]


def _is_gone(pid: int) -> bool:
    """Whether the kernel has no such process.

    An unreadable file does not prove it: ``hidepid`` hides processes of other users, and this
    process may be out of file descriptors.
    """
    try:
        os.kill(pid, 0)  # no signal: only the check
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # it belongs to another user, or the id is not valid
        return False
    return False


_OWN = PerProcess(lambda: _name_of(os.getpid()))
