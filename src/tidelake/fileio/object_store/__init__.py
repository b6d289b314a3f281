"""Object stores as a FileIO: S3, Google Cloud Storage and Azure, by one client.

The promises of :class:`tidelake.fileio.FileIO` on a store without directories and renames. What a
store answers is not believed where a commit depends on it.
"""

from tidelake.fileio.object_store.credentials import NEEDED, Credentials, CredentialSource
from tidelake.fileio.object_store.file_io import DIRECTORY_MARKER, ObjectStoreFileIO
from tidelake.fileio.object_store.locked import HeldPutLock, PutLock
from tidelake.fileio.object_store.settings import (
    KEYS,
    StoreSettings,
    is_storage_key,
    known_keys,
    known_settings,
    parse_settings,
)

__all__ = [
    "DIRECTORY_MARKER",
    "KEYS",
    "NEEDED",
    "CredentialSource",
    "Credentials",
    "HeldPutLock",
    "ObjectStoreFileIO",
    "PutLock",
    "StoreSettings",
    "is_storage_key",
    "known_keys",
    "known_settings",
    "parse_settings",
]
