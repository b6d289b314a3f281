"""Where a warehouse or a table lies: the scheme, the bucket or host, and the path of a URI.

==========================  =================================  ================
URI                         storage                            extra
==========================  =================================  ================
``/dir``, ``file:/dir``     local files                        none
``s3://bucket/prefix``      S3 and what speaks like it         ``s3``
``gs://bucket/prefix``      Google Cloud Storage               ``s3``
``az://container/prefix``   Azure Blob Storage                 ``s3``
``hdfs://host:port/dir``    HDFS                               ``hdfs``
==========================  =================================  ================

``s3a`` means ``s3``; ``abfs`` and ``abfss`` mean ``az``, with
``abfs://container@account.dfs.core.windows.net/prefix`` as Hadoop writes it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tidelake.errors import InvalidInputError, near_names, shortened

SCHEMES = {
    "file": "file",
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    "az": "az",
    "abfs": "az",
    "abfss": "az",
    "hdfs": "hdfs",
}
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_HALF_URI = re.compile(r"(s3a?|gs|az|abfss?|hdfs):(?!//)", re.IGNORECASE)
_AZURE_HOST = re.compile(r"([a-z0-9]+)\.(?:blob|dfs)\.core\.windows\.net")
_BAD_CHARACTERS = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a storage.

    Parameters
    ----------
    scheme : str
        ``"file"``, ``"s3"``, ``"gs"``, ``"az"`` or ``"hdfs"``.
    authority : str
        Bucket, container or host; empty for local files.
    path : str
        Absolute POSIX path.
    account : str
        Azure's storage account, if the URI names it.
    """

    scheme: str
    authority: str
    path: str
    account: str = ""

    def __str__(self) -> str:
        if self.scheme == "file":
            return self.path
        return f"{self.scheme}://{self.authority}{'' if self.path == '/' else self.path}"


def parse_location(given: object, *, what: str = "Warehouse") -> Location:
    """Parse a path or a URI.

    Raises
    ------
    InvalidInputError
        It is none, or its scheme is unknown.

    Examples
    --------
    >>> parse_location("s3a://lake/house/")
    Location(scheme='s3', authority='lake', path='/house', account='')
    >>> str(parse_location("abfss://lake@acme.dfs.core.windows.net/house"))
    'az://lake/house'
    >>> parse_location("/data/lake").scheme
    'file'
    >>> parse_location("s3n://lake")
    Traceback (most recent call last):
    tidelake.errors.InvalidInputError: Warehouse 's3n://lake' is on an unknown storage 's3n'. ...
    """
    if not isinstance(given, (str, Path)):
        message = f"{what} {shortened(repr(given))} is not a path: give a directory or a URI."
        raise InvalidInputError(message, kind="warehouse")
    text = str(given)
    if not text:
        message = f"{what}: the path is empty; give a local directory or a URI."
        raise InvalidInputError(message, kind="warehouse")
    if text.startswith("file:"):
        text = "/" + text.removeprefix("file:").lstrip("/")
    if isinstance(given, str) and text.startswith("hdfs:/") and not text.startswith("hdfs://"):
        text = "hdfs://" + text.removeprefix("hdfs:")  # so Hadoop prints a URI without a host
    half = _HALF_URI.match(text)
    if half is not None:  # a Path makes one slash of two
        message = (
            f"{what} '{half.group()}...' is no URI: write it as '{half.group(1).lower()}://', and"
            " give a str, not a Path."
        )
        raise InvalidInputError(message, kind="warehouse")
    found = None if isinstance(given, Path) else _URI.fullmatch(text)
    if found is None:
        return Location("file", "", Path(text).expanduser().absolute().as_posix())
    return _parsed(text, found.group(1).lower(), found.group(2), what)


def _parsed(text: str, scheme: str, rest: str, what: str) -> Location:
    known = SCHEMES.get(scheme)
    shown = shortened(repr(_without_user(text)))
    if known is None:
        message = (
            f"{what} {shown} is on an unknown storage '{scheme}'.{near_names(scheme, SCHEMES)}"
            f" Known are: {', '.join(SCHEMES)}, and paths of local files."
        )
        raise InvalidInputError(message, kind="storage_scheme", scheme=scheme)
    authority, _, path = rest.partition("/")
    account = ""
    if "@" in authority and known == "az":
        authority, _, host = authority.partition("@")
        account = _account(host, f"{what} {shown}")
    if "@" in authority or (":" in authority and known != "hdfs"):
        message = (
            f"{what} '{scheme}://...' holds '@' or ':' before its path: credentials do not belong"
            " into a URI; give them, and an endpoint with its port, by storage={...} or by the"
            " environment."
        )
        raise InvalidInputError(message, kind="warehouse")
    if not authority and known != "hdfs":
        message = f"{what} {shown} names no bucket: write it as {scheme}://bucket/prefix."
        raise InvalidInputError(message, kind="warehouse")
    if (
        _BAD_CHARACTERS.search(path)
        or ".." in path.split("/")
        or "" in path.strip("/").split("/")[:-1]
    ):
        message = f"{what} {shown} holds '..', '//' or a control character: give a plain path."
        raise InvalidInputError(message, kind="warehouse")
    return Location(known, authority, "/" + path.strip("/"), account)


def _account(host: str, what: str) -> str:
    """Azure's account in a host; another cloud's host would be lost."""
    found = _AZURE_HOST.fullmatch(host.lower())
    if found is None:
        message = (
            f"{what} is not in Azure's public cloud, whose hosts are"
            " <account>.dfs.core.windows.net: write it as az://container/prefix, and give"
            " 'azure.account-name' and 'azure.endpoint' by storage={...}."
        )
        raise InvalidInputError(message, kind="warehouse")
    return found.group(1)


def _without_user(text: str) -> str:
    """A URI without what stands before '@', which may be a secret; that may hold '/'."""
    return re.sub(r"//.*@", "//...@", text, flags=re.DOTALL)
