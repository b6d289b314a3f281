"""Loads what needs a library of the extra ``service``, at its first use."""

from __future__ import annotations

import importlib
from types import ModuleType

from tidelake.errors import UnsupportedError

PIP_NAMES = {
    "grpc": "grpcio",
    "google": "protobuf",
    "grpc_health": "grpcio-health-checking",
    "prometheus_client": "prometheus-client",
}


def load(module: str, *, what: str = "The query service") -> ModuleType:
    """Import a module of this package that needs gRPC.

    Raises
    ------
    UnsupportedError
        A library is not installed; the message says how to install it.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in PIP_NAMES:
            raise  # a bug
        library = PIP_NAMES[missing]
        message = f"{what} needs the library '{library}': pip install 'tidelake[service]'."
        raise UnsupportedError(message, kind="library_missing", library=library) from error


def metrics_library() -> ModuleType:
    """The library ``prometheus_client``.

    Raises
    ------
    UnsupportedError
        It is not installed.
    """
    return load("prometheus_client", what="The port with metrics")


def tracing_library(module: str = "trace") -> ModuleType | None:
    """A module of ``opentelemetry``'s API; None where its package is not installed."""
    try:
        return importlib.import_module(f"opentelemetry.{module}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "opentelemetry":
            raise
        return None
