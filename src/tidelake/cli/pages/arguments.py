"""Arguments of the commands that show a warehouse as pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tidelake.cli.command_line.usage_error import UsageError

HOST, PORT = "127.0.0.1", 8765


@dataclass(frozen=True, slots=True)
class UiArguments:
    """Arguments of ``tidelake ui``.

    Parameters
    ----------
    host, port : str, int
        Where to listen; port 0 takes a free one.
    token : str, optional
        The file with the token.
    allow_actions : bool
        Whether pages offer what the doctor prescribes.
    """

    warehouse: str
    host: str = HOST
    port: int = PORT
    token: str | None = None
    allow_actions: bool = False
    memory: str | None = None
    catalog_options: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class ReportArguments:
    """Arguments of ``tidelake report``.

    Parameters
    ----------
    output : str
        The file; ``-`` is the standard output.
    """

    warehouse: str
    table: str
    output: str
    memory: str | None = None
    catalog_options: Mapping[str, str] = field(default_factory=dict, repr=False)


PageArguments = UiArguments | ReportArguments


def page_arguments(given: Mapping[str, Any], warehouse: str) -> PageArguments:
    """Read the arguments of ``tidelake ui`` and ``tidelake report``.

    Raises
    ------
    UsageError
        The address is none, or there is no such file with a token.
    """
    memory, options = given["memory"], given["catalog_options"]
    if given["command_name"] == "report":
        name = given["table"]
        table = name if "." in name else f"{given['database'] or 'default'}.{name}"
        output = given["output"] or f"{table.replace('/', '_')}.html"
        return ReportArguments(warehouse, table, output, memory, options)
    host, port = _address(given["bind"] or HOST)
    token = given["token"]
    if token is not None and not Path(token).is_file():
        message = f"--token: there is no file {token}"
        raise UsageError(message)
    return UiArguments(warehouse, host, port, token, given["allow_actions"], memory, options)


def _address(text: str) -> tuple[str, int]:
    """Host and port.

    Examples
    --------
    >>> _address("0.0.0.0:80"), _address("::1"), _address("[::1]:0"), _address("box")
    (('0.0.0.0', 80), ('::1', 8765), ('::1', 0), ('box', 8765))
    """
    is_bare_v6 = text.count(":") > 1 and not text.startswith("[")
    try:
        parts = urlsplit(f"//[{text}]" if is_bare_v6 else f"//{text}")
        port = PORT if parts.port is None else parts.port
        if parts.hostname and not (parts.path or parts.query or parts.username):
            return parts.hostname, port
    except ValueError:
        pass
    message = f"--bind takes a host and perhaps a port, as 127.0.0.1:{PORT}, not '{text}'"
    raise UsageError(message)
