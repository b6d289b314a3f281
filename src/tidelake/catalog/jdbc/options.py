"""Options of the JDBC catalog, by the keys and defaults of Java's (1.3.1)."""

from __future__ import annotations

from typing import Any

from tidelake.options import Option
from tidelake.options.option import boolean, duration, enumeration, integer, no_effect, text

PROPERTY_PREFIX = "jdbc."
"""Beginning of the keys of properties of the connection."""

URI = text(
    "uri", None, "The database: 'jdbc:sqlite:/path/of/file' or 'jdbc:postgresql://host:port/db'."
)
CATALOG_KEY = text(
    "catalog-key", "jdbc", "Name of this catalog in the database, which may hold several."
)
LOCK_ENABLED = boolean(
    "lock.enabled",
    None,
    "Whether to take Java's lock before changing a table. It is no fence. By default on remote"
    " storage only, where Java needs it.",
)
COMMIT_LOCK = enumeration(
    "commit.lock",
    "none",
    ("none", "catalog"),
    "'catalog' allows a store without conditional writes, and puts under the lock there: as safe as"
    " Java's commits, and no safer.",
)
LOCK_CHECK_MAX_SLEEP = duration(
    "lock-check-max-sleep", 8_000, "Longest wait between two tries for the lock."
)
LOCK_ACQUIRE_TIMEOUT = duration(
    "lock-acquire-timeout",
    480_000,
    "Longest wait for the lock, and the age at which others may remove it.",
)
LOCK_KEY_MAX_LENGTH = integer(
    "lock-key-max-length", 255, "Length of the lock's column, if its table is created.", minimum=1
)
LOCK_TYPE = text(
    "lock.type", "jdbc", "Kind of the lock.", no_effect("the lock is always in the database")
)
CLIENT_POOL_SIZE = integer(
    "client-pool-size",
    2,
    "Connections of Java's pool.",
    no_effect("each thread has a connection of its own"),
    minimum=1,
)

JDBC_OPTIONS: tuple[Option[Any], ...] = (
    URI,
    CATALOG_KEY,
    LOCK_ENABLED,
    COMMIT_LOCK,
    LOCK_ACQUIRE_TIMEOUT,
    LOCK_CHECK_MAX_SLEEP,
    LOCK_KEY_MAX_LENGTH,
    LOCK_TYPE,
    CLIENT_POOL_SIZE,
)
