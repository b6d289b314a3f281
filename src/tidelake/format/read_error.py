"""Converts Arrow's errors about a data file to ours.

Arrow has many classes of errors. If it calls a file of a Paimon writer invalid, out of range or not
implemented, the file is damaged. A lack of memory is the fault of the process. But no writer makes
a file that needs :data:`ASKED_BYTES_MAX` bytes at once: such a request means that a length in the
file is damaged. An ``OSError`` with an error number comes from the operating system and is a fault
of the storage.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from tidelake.errors import CorruptError, StorageError, TidelakeError, not_enough_memory

MESSAGE_LENGTH_MAX = 300
ASKED_BYTES_MAX = 1 << 40
_ASKED = re.compile(r"\bsize (\d+)")
"""The size in Arrow's message about a failed allocation."""


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Convert Arrow's errors inside the block to ours.

    Raises
    ------
    CorruptError
        The file is damaged.
    NotEnoughMemoryError
        Memory ran out.
    StorageError
        The operating system refused or failed.
    """
    try:
        yield
    except TidelakeError:
        raise  # an error of the FileIO, which Arrow passed on
    except OSError as error:
        if error.errno == errno.ENOMEM:
            raise not_enough_memory(path, error.strerror) from error
        if error.errno is not None:
            message = f"Could not read {path}: {error.strerror}. Check the storage and try again."
            raise StorageError(message, path=path) from error
        raise corrupt(path, str(error)) from error
    except MemoryError as error:  # Arrow's too
        asked = _ASKED.search(str(error))
        if asked is not None and int(asked[1]) > ASKED_BYTES_MAX:
            raise corrupt(path, str(error)) from error
        raise not_enough_memory(path, error) from error
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise corrupt(path, str(error)) from error


def corrupt(path: str, reason: str) -> CorruptError:
    """Make the error for a damaged data file."""
    short = reason if len(reason) <= MESSAGE_LENGTH_MAX else reason[:MESSAGE_LENGTH_MAX] + "..."
    message = (
        f"Data file {path} is damaged or does not match the table: {short.rstrip('. ')}."
        " Restore it from a backup, or read a snapshot without it."
    )
    return CorruptError(message, kind="data_file", path=path)
