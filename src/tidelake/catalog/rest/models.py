"""What a catalog's server tells about tables, partitions and tokens.

Unknown members are ignored: a newer server tells more. Source: Paimon's ``GetTableResponse``,
``GetTableTokenResponse``, ``Partition`` and ``GetDatabaseResponse`` (1.3.1).
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from tidelake.errors import CorruptError


class ServerSchema(msgspec.Struct, frozen=True):
    """What is read of a table's schema here: the rest is in the schema's file."""

    options: dict[str, str] | None = None


class ServerTable(msgspec.Struct, frozen=True, rename="camel"):
    """One table.

    Parameters
    ----------
    id : str
        The server's id: another table of the same name has another one.
    name : str
        Its name, without the database's.
    path : str
        Its directory, perhaps with a scheme.
    schema_id : int
        The newest schema.
    is_external : bool
        Whether the server does not own the files.
    """

    id: str | None
    name: str
    path: str
    schema_id: int
    schema: ServerSchema
    is_external: bool = False


class ServerDatabase(msgspec.Struct, frozen=True, rename="camel"):
    """One database."""

    name: str
    options: dict[str, str] | None = None
    id: str | None = None
    location: str | None = None


class ServerToken(msgspec.Struct, frozen=True, rename="camel"):
    """Keys of a table's storage, as given out by the server. Not shown.

    Parameters
    ----------
    token : mapping
        Options of the storage, such as ``s3.access-key``.
    expires_at_millis : int
        When they expire, ms since the epoch.
    """

    token: dict[str, str]
    expires_at_millis: int

    def __repr__(self) -> str:
        return f"ServerToken({sorted(self.token)}, expires_at_millis={self.expires_at_millis})"


class ServerPartition(msgspec.Struct, frozen=True, rename="camel"):
    """One partition and its figures.

    Parameters
    ----------
    record_count, file_size_in_bytes, file_count, last_file_creation_time : int
        Rows, bytes, files; ms since the epoch.
    """

    spec: dict[str, str]
    record_count: int = 0
    file_size_in_bytes: int = 0
    file_count: int = 0
    last_file_creation_time: int = 0
    done: bool = False


T = TypeVar("T")


def json_object(document: object, *, what: str) -> dict[str, Any]:
    """Give the JSON object of an answer; of an empty answer, an empty one.

    Raises
    ------
    CorruptError
        It is no object.
    """
    return {} if document is None else decoded(document, dict[str, Any], what=what)


def decoded(document: object, kind: type[T], *, what: str) -> T:
    """Read the JSON object of an answer.

    Raises
    ------
    CorruptError
        It is another one than Paimon's; the message names what was asked.
    """
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        message = (
            f"The catalog's server answered {what} with another object than Paimon's ({error}):"
            " look at its version, and at the option 'uri'."
        )
        raise CorruptError(message, kind="rest_answer") from error
