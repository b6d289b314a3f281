"""The one border where Arrow's errors about a data file become ours.

Arrow says the same things in many classes: what it calls invalid, out of range or not implemented
is, for a file that a Paimon writer made, damage. Memory that ends is a matter of the process, but
no writer makes a file of which :data:`ASKED_BYTES_MAX` have to be held at once: a length in it is
damaged. An ``OSError`` with an error number comes from the operating system and is a matter of the
storage.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from tidelake.errors import CorruptError, StorageError, TidelakeError, not_enough_memory

__all__ = ["corrupt", "reading"]

MESSAGE_LENGTH_MAX = 300
ASKED_BYTES_MAX = 1 << 40
_ASKED = re.compile(r"\bsize (\d+)")
"""How Arrow says what it asked the allocator for."""


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Turn Arrow's errors inside the block into ours.

    Raises
    ------
    CorruptError
        The file is damaged.
    NotEnoughMemoryError
        Memory ended.
    StorageError
        The operating system refused or failed.
    """
    try:
        yield
    except TidelakeError:
        raise  # a FileIO's own error, handed through by Arrow
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
    """Make the error for a data file that is not what it should be."""
    short = reason if len(reason) <= MESSAGE_LENGTH_MAX else reason[:MESSAGE_LENGTH_MAX] + "..."
    message = (
        f"Data file {path} is damaged or does not match the table: {short.rstrip('. ')}."
        " Restore it from a backup, or read a snapshot without it."
    )
    return CorruptError(message, kind="data_file", path=path)
