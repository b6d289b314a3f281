"""Loads the clients of storages at their first use, and keeps them from forked processes.

``obstore`` and ``hdfs_native`` run threads of their own from the first request on. A child that
``fork`` makes after that has none of them, and each of its calls would wait for ever: it is refused
at once.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
from types import ModuleType

from tidelake.errors import InvalidInputError, StorageError, UnsupportedError
from tidelake.telemetry import ProcessMark

_GSSAPI = {"darwin": "libgssapi_krb5.dylib", "win32": "gssapi_krb5.dll"}


class _Runtime:
    """The process that sent the first request."""

    mark: ProcessMark | None = None
    pid = 0


def check_not_forked() -> None:
    """Refuse a process that was forked from one that had used a client.

    Raises
    ------
    StorageError
        It was.
    """
    if _Runtime.mark is None:
        _Runtime.mark, _Runtime.pid = ProcessMark(), os.getpid()
    elif not _Runtime.mark.is_here:
        message = (
            f"Process {os.getpid()} was forked from process {_Runtime.pid} after that had used a"
            " remote storage: the client's threads did not come along. Start processes by"
            " 'spawn' or 'forkserver', or fork before the first use."
        )
        raise StorageError(message, kind="forked")


def obstore() -> ModuleType:
    """The client of object stores, with its ``store`` and ``exceptions``."""
    _loaded("obstore.store", what="An object store", extra="s3", library="obstore")
    return importlib.import_module("obstore")


def hdfs_native() -> ModuleType:
    """The client of HDFS."""
    return _loaded("hdfs_native", what="HDFS", extra="hdfs", library="hdfs-native")


def has_gssapi() -> bool:
    """Whether the system's Kerberos library is there, which HDFS's client loads by its name."""
    try:
        ctypes.CDLL(_GSSAPI.get(sys.platform, "libgssapi_krb5.so.2"))
    except OSError:
        return False
    return True


def boto3_credentials(profile: str) -> object:
    """Credentials of a profile in ``~/.aws``, SSO included: a provider for obstore.

    Raises
    ------
    UnsupportedError
        boto3 is not installed.
    InvalidInputError
        There is no such profile, or it holds no credentials.
    """
    what = f"The AWS profile '{profile}'"
    boto3 = _loaded("boto3", what=what, extra=None, library="boto3")
    provider = _loaded("obstore.auth.boto3", what=what, extra="s3", library="obstore")
    refused = _loaded("botocore.exceptions", what=what, extra=None, library="boto3").BotoCoreError
    try:
        return provider.Boto3CredentialProvider(boto3.session.Session(profile_name=profile))
    except (refused, ValueError) as error:
        message = f"{what} gives no credentials ({error}). Correct it, or give another one."
        raise InvalidInputError(message, kind="storage_value") from error


def _loaded(module: str, *, what: str, extra: str | None, library: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        wanted = library if extra is None else f"'tidelake[{extra}]'"
        message = f"{what} needs the library '{library}': pip install {wanted}."
        raise UnsupportedError(message, kind="library_missing", library=library) from error
