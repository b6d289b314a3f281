"""Loads the client's library ``confluent-kafka`` at its first use."""

from __future__ import annotations

import importlib
from types import ModuleType

from tidelake.errors import UnsupportedError


def confluent() -> ModuleType:
    """Load the library.

    Raises
    ------
    UnsupportedError
        It is not installed; the message says how to install it.
    """
    return _load("confluent_kafka")


def confluent_admin() -> ModuleType:
    """Load the part of the library that lists topics and offsets."""
    return _load("confluent_kafka.admin")


def _load(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "confluent_kafka":
            raise
        message = (
            "Tables of Kafka need the library 'confluent-kafka': pip install 'tidelake[kafka]'."
        )
        raise UnsupportedError(
            message, kind="library_missing", library="confluent-kafka"
        ) from error
