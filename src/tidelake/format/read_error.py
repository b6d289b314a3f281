"""The one border where Arrow's errors about a data file become ours.

Arrow says the same things in many classes: what it calls invalid, out of range, not implemented
or out of memory is, for a file that a Paimon writer made, damage. An ``OSError`` with an error
number comes from the operating system and is a matter of the storage.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from tidelake.errors import CorruptError, StorageError, TidelakeError

__all__ = ["corrupt", "reading"]

MESSAGE_LENGTH_MAX = 300


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Turn Arrow's errors inside the block into ``CorruptError`` or ``StorageError``."""
    try:
        yield
    except TidelakeError:
        raise  # a FileIO's own error, handed through by Arrow
    except OSError as error:
        if error.errno is not None:
            message = f"Could not read {path}: {error.strerror}. Check the storage and try again."
            raise StorageError(message, path=path) from error
        raise corrupt(path, str(error)) from error
    except MemoryError as error:  # Arrow's too; a damaged length asks for as much as it likes
        raise corrupt(path, f"{error or 'no memory'}, or memory is short here") from error
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise corrupt(path, str(error)) from error


def corrupt(path: str, reason: str) -> CorruptError:
    """Make the error for a data file that is not what it should be."""
    short = reason if len(reason) <= MESSAGE_LENGTH_MAX else reason[:MESSAGE_LENGTH_MAX] + "..."
    message = (
        f"Data file {path} is damaged or not what the table says of it: {short.rstrip('. ')}."
        " Restore it from a backup, or read a snapshot without it."
    )
    return CorruptError(message, kind="data_file", path=path)
