"""Opens the storage of a location: local files, an object store, or HDFS."""

from __future__ import annotations

from collections.abc import Mapping

from tidelake.errors import InvalidInputError, shortened
from tidelake.fileio.cached import CachedFileIO
from tidelake.fileio.file_io import FileIO
from tidelake.fileio.hdfs import HdfsFileIO, parse_hdfs_settings
from tidelake.fileio.local import LocalFileIO
from tidelake.fileio.local_cache import local_cache
from tidelake.fileio.location import Location
from tidelake.fileio.object_store import (
    CredentialSource,
    ObjectStoreFileIO,
    is_storage_key,
    parse_settings,
)
from tidelake.telemetry import Env


def open_storage(
    location: Location,
    storage: Mapping[str, object] | None,
    env: Env,
    *,
    credentials: CredentialSource | None = None,
) -> FileIO:
    """Open a storage; nothing is sent.

    Parameters
    ----------
    storage : mapping, optional
        How to reach them: ``{"s3.endpoint": ...}``, and whether to keep what is read on the local
        disk: ``{"local-cache.enabled": "true", ...}``. See ``docs/storage.md``.
    credentials : CredentialSource, optional
        Gives keys of S3 for a while; no others are used then.

    Raises
    ------
    InvalidInputError
        A key is unknown, or its value is wrong.
    UnsupportedError
        A library is missing.
    """
    given = storage or {}
    cache = local_cache(given)
    if location.scheme in {"s3", "gs", "az"}:
        settings = parse_settings(location.scheme, given)
        if location.account:
            settings = settings.with_account(location.account)
        if credentials is not None:
            settings = settings.without_credentials()
        store = ObjectStoreFileIO(location, settings, env, credentials=credentials)
        if cache is None:
            return store
        # not the account or the keys: the same bytes whoever asks
        place = f"{settings.values.get('endpoint', '')} {location.scheme}://{location.authority}"
        return cache.over(store, place=place, env=env)
    if location.scheme == "hdfs":
        hdfs = HdfsFileIO(location, parse_hdfs_settings(given), env)
        place = f"hdfs://{location.authority}"
        return hdfs if cache is None else cache.over(hdfs, place=place, env=env)
    unknown = [key for key in given if not is_storage_key(str(key))]
    if unknown:
        message = (
            f"Storage key '{shortened(str(unknown[0]))}' is unknown, and local files need none."
        )
        raise InvalidInputError(message, kind="storage_key", key=unknown[0])
    return LocalFileIO(env.ids)


def sends_secrets(fileio: FileIO) -> bool:
    """Whether a copy of a storage needs secrets that do not go along in its pickle."""
    if isinstance(fileio, CachedFileIO):
        return sends_secrets(fileio.inner)
    return isinstance(fileio, ObjectStoreFileIO) and fileio.has_secrets


def store_id(fileio: FileIO) -> tuple[str, ...]:
    """What tells a store from another whose files have the same URIs; without secrets."""
    if isinstance(fileio, CachedFileIO):
        return store_id(fileio.inner)
    return fileio.store_id if isinstance(fileio, ObjectStoreFileIO | HdfsFileIO) else ()


def account_of(fileio: FileIO) -> str:
    """Azure's storage account of a storage; empty where it is not known, or another storage."""
    if isinstance(fileio, CachedFileIO):
        return account_of(fileio.inner)
    return fileio.account if isinstance(fileio, ObjectStoreFileIO) else ""


def split_options(options: Mapping[str, object]) -> tuple[dict[str, object], dict[str, object]]:
    """Part a catalog's options from those of its storage.

    Examples
    --------
    >>> split_options({"table-default.bucket": "4", "s3.endpoint": "https://minio:9000"})
    ({'table-default.bucket': '4'}, {'s3.endpoint': 'https://minio:9000'})
    """
    storage = {key: value for key, value in options.items() if is_storage_key(key)}
    return {key: value for key, value in options.items() if key not in storage}, storage
