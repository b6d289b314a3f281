"""The file by which a client finds the address server of a table: its place, content and life.

``<table>/service/service-tidelake-query``, a JSON object::

    {"protocol": 1, "address": "127.0.0.1:40123", "serviceId": "...", "tls": false}

1. The address server puts it, if it is absent, when it serves the table. Of two services that start
   at once one gets the name, in an object store too; the other is told.
2. The file of a service that does not answer, or that nobody can read, is removed before. It is
   read again just before: of two services that replace the same file the later one is told. Only
   between these two requests another's new file may still be removed, and its service notices.
3. When it ends it removes the file, unless another service has put its own since.
4. A service that was killed leaves it behind. So an address is where to ask, and no promise that
   somebody answers.

The name is our own: an executor of Flink would speak Paimon's own protocol to whatever
``service-primary-key-lookup`` names. On disk: never rename.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from tidelake.engine.storage import FileIO
from tidelake.errors import CorruptError, NotFoundError, UnsupportedError
from tidelake.service.protocol.reasons import PROTOCOL

SERVICE_DIR = "service"
SERVICE_FILE = "service-tidelake-query"
FILE_BYTES_MAX = 65_536


@dataclass(frozen=True, slots=True)
class ServiceFile:
    """What the file says.

    Parameters
    ----------
    address : str
        ``host:port`` of the address server.
    tls : bool
        Whether it answers by TLS only.
    """

    address: str
    service_id: str
    tls: bool = False
    protocol: int = PROTOCOL


def service_file_path(location: str) -> str:
    """The path of the file of a table in this directory."""
    return f"{location}/{SERVICE_DIR}/{SERVICE_FILE}"


def read_service_file(fileio: FileIO, location: str) -> ServiceFile | None:
    """Read the file of a table.

    Returns
    -------
    ServiceFile or None
        None where no service has registered, or the last one has ended.

    Raises
    ------
    CorruptError
        It is not such a file.
    UnsupportedError
        The service speaks only another version of the protocol.
    """
    path = service_file_path(location)
    try:
        text = fileio.read_bytes(path, bytes_max=FILE_BYTES_MAX)
    except NotFoundError:
        return None
    return parse_service_file(text, path)


def service_file_content(fileio: FileIO, location: str) -> bytes | None:
    """Read what is in the place of the file, whatever it is; None without a file.

    What is too large for such a file counts as empty: neither is a service's.
    """
    try:
        return fileio.read_bytes(service_file_path(location), bytes_max=FILE_BYTES_MAX)
    except NotFoundError:
        return None
    except CorruptError:
        return b""


def parse_service_file(text: bytes, path: str) -> ServiceFile:
    """Parse what is in the file at a path; errors as of :func:`read_service_file`."""
    try:
        found = json.loads(text)
        protocol = int(found["protocol"])
        value = ServiceFile(
            str(found["address"]), str(found["serviceId"]), bool(found["tls"]), protocol
        )
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        message = (
            f"File {path} does not name an address server ({error!r}): remove it, or start the"
            " service again."
        )
        raise CorruptError(message, kind="service_file", path=path) from error
    if value.protocol != PROTOCOL:
        newer = "newer" if value.protocol > PROTOCOL else "older"
        message = (
            f"The service at {value.address} speaks version {value.protocol} of the protocol, and"
            f" this client version {PROTOCOL}. Use a {newer} Tidelake, or start the service with"
            " this one."
        )
        raise UnsupportedError(message, kind="service_protocol", path=path)
    return value


def put_service_file(
    fileio: FileIO, location: str, value: ServiceFile, *, over: bytes | None = None
) -> bool:
    """Register an address server; False if another's file is there.

    Parameters
    ----------
    over : bytes, optional
        The :func:`service_file_content` that was there, if it is to be removed first: its service
        is gone. If another is there by now, that stays.

    Raises
    ------
    NotFoundError
        The table's directory was removed: nothing was written.
    """
    path = service_file_path(location)
    with fileio.open_dir(f"{location}/{SERVICE_DIR}", make=True) as place:
        if over is not None:
            found = service_file_content(fileio, location)
            if found is not None:
                if found != over:
                    return False
                fileio.delete(path, within=place)
        return fileio.put_if_absent(path, _document(value), within=place)


def write_service_file(fileio: FileIO, location: str, value: ServiceFile) -> None:
    """Write the file of a service that has one, in one step: its address is another now.

    Raises
    ------
    NotFoundError
        The table's directory was removed: nothing was written.
    """
    # by the open directory: a dropped table is not created again by its service's file
    with fileio.open_dir(f"{location}/{SERVICE_DIR}", make=True) as place:
        fileio.replace(service_file_path(location), _document(value), within=place)


def _document(value: ServiceFile) -> bytes:
    document = {
        "protocol": value.protocol,
        "address": value.address,
        "serviceId": value.service_id,
        "tls": value.tls,
    }
    return json.dumps(document).encode()


def remove_service_file(fileio: FileIO, location: str, service_id: str) -> bool:
    """Remove the file if it is still that of this service; whether it was."""
    try:
        found = read_service_file(fileio, location)
    except (CorruptError, UnsupportedError):
        return False
    if found is None or found.service_id != service_id:
        return False
    return fileio.delete(service_file_path(location))
