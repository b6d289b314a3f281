"""Real object stores on loopback: MinIO for S3, and Microsoft's Azurite for Azure.

``python -m servers.real_stores`` fetches both into the project's cache (``make stores`` does);
:func:`minio` and :func:`azurite` start one.
"""

from __future__ import annotations

import base64
import email.utils
import hashlib
import hmac
import http.client
import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from servers.ports import free_port
from servers.program import (
    CACHE,
    START_SECONDS_MAX,
    AbsentError,
    Program,
    fetch,
    running,
    tool,
)

MINIO = "v0.0.0-20260212201848-7aac2a2c5b7c"
"""Of ``github.com/minio/minio``, from which ``go install`` builds it."""
AZURITE = "3.37.0"
"""Of npm's package ``azurite``."""
BUCKET = "lake"
USER, PASSWORD = "tidelake-tests", "a secret of MinIO /+="
ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = base64.b64encode(b"a key of Azurite, which tests give it").decode()
_AZURE_VERSION = "2023-11-03"
_FETCHING = "run `make stores` to fetch it"


@dataclass(frozen=True)
class RealStore:
    """A store that runs, with an empty bucket.

    Parameters
    ----------
    name : str
        ``"minio"`` or ``"azurite"``.
    scheme : str
        Of its URIs.
    options : dict
        What ``storage={...}`` must hold.
    program : Program
        Its process.
    """

    name: str
    scheme: str
    options: dict[str, str]
    program: Program
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def port(self) -> int:
        """Its port on 127.0.0.1."""
        return self.program.port

    def storage(self, **more: str) -> dict[str, str]:
        """What reaches it, with further keys; without a prefix they get its own."""
        prefix = {"s3": "s3", "az": "azure"}[self.scheme]
        return {**self.options, **{f"{prefix}.{key}": value for key, value in more.items()}}

    def fresh(self) -> str:
        """The URI of a place that is empty."""
        return f"{self.scheme}://{BUCKET}/p{next(self._numbers)}"


def minio_program() -> Path:
    """The binary.

    Raises
    ------
    AbsentError
        It was not fetched.
    """
    return _found(CACHE / f"minio-{MINIO}" / "minio", "MinIO")


def azurite_program() -> Path:
    """Its program for blobs.

    Raises
    ------
    AbsentError
        It was not fetched.
    """
    tool("node", "Azurite")
    package = CACHE / f"azurite-{AZURITE}" / "node_modules" / ".bin"
    return _found(package / "azurite-blob", "Azurite")


def _found(program: Path, name: str) -> Path:
    if not program.exists():
        message = f"{name} is not in {CACHE}: {_FETCHING}"
        raise AbsentError(message)
    return program


@contextmanager
def minio() -> Iterator[RealStore]:
    """Run MinIO."""
    binary, port = minio_program(), free_port()
    command = [str(binary), "server", "{place}/data", "--address", f"127.0.0.1:{port}", "--quiet"]
    environ = {
        "MINIO_ROOT_USER": USER,
        "MINIO_ROOT_PASSWORD": PASSWORD,
        "MINIO_BROWSER": "off",
        "MINIO_UPDATE": "off",
        "HOME": "/nonexistent",  # no settings of the developer's own
    }
    options = {
        "s3.endpoint": f"http://127.0.0.1:{port}",
        "s3.access-key": USER,
        "s3.secret-key": PASSWORD,
    }
    with running(command, port=port, environ=environ) as program:
        _wait_for(port, "/minio/health/ready")
        _wait_until((program.place / "data" / ".minio.sys" / "format.json").exists)
        (program.place / "data" / BUCKET).mkdir()  # a bucket of MinIO is a directory
        yield RealStore("minio", "s3", options, program)


@contextmanager
def azurite() -> Iterator[RealStore]:
    """Run Azurite, with its data in memory."""
    program_path, port = azurite_program(), free_port()
    command = [
        str(program_path), "--silent", "--inMemoryPersistence", "--skipApiVersionCheck",
        "--disableTelemetry", "--blobHost", "127.0.0.1", "--blobPort", str(port),
    ]  # fmt: skip
    options = {
        "azure.endpoint": f"http://127.0.0.1:{port}/{ACCOUNT}",
        "azure.account-name": ACCOUNT,
        "azure.account-key": ACCOUNT_KEY,
    }
    environ = {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{ACCOUNT_KEY}"}
    with running(command, port=port, environ=environ) as program:
        _make_container(port)
        yield RealStore("azurite", "az", options, program)


def _wait_for(port: int, path: str) -> None:
    def is_ready() -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=START_SECONDS_MAX)
        connection.request("GET", path)
        return connection.getresponse().status == 200

    _wait_until(is_ready)


def _wait_until(is_ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_SECONDS_MAX
    while not is_ready():
        assert time.monotonic() < deadline, "a store does not become ready"
        time.sleep(0.05)


def _make_container(port: int) -> None:
    """Create the container, by a request signed with the account's key."""
    date = email.utils.formatdate(usegmt=True)
    place = f"/{ACCOUNT}/{BUCKET}"
    headers = f"x-ms-date:{date}\nx-ms-version:{_AZURE_VERSION}\n"
    # the path holds the account once for the emulator, and once for the signature
    signed = f"PUT{12 * chr(10)}{headers}/{ACCOUNT}{place}\nrestype:container"
    digest = hmac.new(base64.b64decode(ACCOUNT_KEY), signed.encode(), hashlib.sha256).digest()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=START_SECONDS_MAX)
    connection.request(
        "PUT",
        f"{place}?restype=container",
        headers={
            "x-ms-date": date,
            "x-ms-version": _AZURE_VERSION,
            "Content-Length": "0",
            "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}",
        },
    )
    answer = connection.getresponse()
    assert answer.status == 201, answer.read()


def fetch_minio() -> None:
    """Build MinIO with Go: some minutes, once."""
    place = CACHE / f"minio-{MINIO}"
    if not place.is_dir():
        go = tool("go", "MinIO")
        package = f"github.com/minio/minio@{MINIO}"
        fetch(place, [go, "install", package], {"GOBIN": "{place}", "CGO_ENABLED": "0"})


def fetch_azurite() -> None:
    """Install Azurite with npm."""
    place = CACHE / f"azurite-{AZURITE}"
    if not place.is_dir():
        npm = tool("npm", "Azurite")
        words = [npm, "install", "--no-audit", "--no-fund", "--prefix", "{place}"]
        fetch(place, [*words, f"azurite@{AZURITE}"], {})


if __name__ == "__main__":
    CACHE.mkdir(exist_ok=True)
    for name, fetched in (("MinIO", fetch_minio), ("Azurite", fetch_azurite)):
        print(f"{name} in {os.path.relpath(CACHE)} ...", flush=True)
        try:
            fetched()
        except AbsentError as reason:  # its tests are skipped, and say so
            print(f"{name}: {reason}", file=sys.stderr)
