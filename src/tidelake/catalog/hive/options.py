"""Options of the catalogs in a Hive Metastore and in Glue, by Paimon's names (2.1).

Those of the connection to Glue have the names that Iceberg's clients give them, as Paimon has none.
"""

from __future__ import annotations

from typing import Any

from tidelake.options import Option
from tidelake.options.option import boolean, duration, enumeration, integer, no_effect, text

URI = text(
    "uri",
    None,
    "The metastore: 'thrift://host:9083', or several with commas between. By default"
    " 'hive.metastore.uris' of hive-site.xml.",
)
HIVE_CONF_DIR = text(
    "hive-conf-dir",
    None,
    "Directory of hive-site.xml, which may say the metastore's address and the warehouse. By"
    " default that of the variable HIVE_CONF_DIR.",
)
SOCKET_TIMEOUT = text(
    "hive.metastore.client.socket.timeout",
    "600 s",
    "Longest wait for an answer of the metastore. As in Hive a plain number counts seconds.",
)
LOCATION_IN_PROPERTIES = boolean(
    "location-in-properties",
    False,
    "Whether entries keep their locations among their properties, for a metastore that cannot reach"
    " the storage.",
)
SYNC_ALL_PROPERTIES = boolean(
    "sync-all-properties", True, "Whether an entry shows all options of its table."
)
TABLE_TYPE = enumeration(
    "table.type",
    "managed",
    ("managed", "external"),
    "Kind of new tables. The files of an external table stay when it is dropped.",
)
ALTER_TABLE_CASCADE = boolean(
    "alter-table-cascade",
    True,
    "Whether a change of columns reaches the partitions that the metastore knows.",
)
SKIP_UPDATE_STATS = boolean(
    "hive.skip-update-stats",
    False,
    "Whether a change of columns leaves the metastore's statistics as they are.",
)
LOCK_ENABLED = boolean(
    "lock.enabled",
    None,
    "Whether to take the metastore's lock before changing a table, as Java does. It is no fence. By"
    " default on object stores only, where Java needs it.",
)
LOCK_CHECK_MAX_SLEEP = duration(
    "lock-check-max-sleep", 8_000, "Longest wait between two looks at the lock."
)
LOCK_ACQUIRE_TIMEOUT = duration("lock-acquire-timeout", 480_000, "Longest wait for the lock.")
LOCK_TYPE = text(
    "lock.type", "hive", "Kind of the lock.", no_effect("the lock is always the metastore's")
)
FORMAT_TABLE_ENABLED = boolean(
    "format-table.enabled",
    False,
    "Whether tables of plain CSV, Parquet or ORC files are listed. Java's default is true; here"
    " only false is taken.",
)
CASE_SENSITIVE = boolean(
    "case-sensitive",
    False,
    "Whether names may have capitals. A metastore keeps names in lower case: only false is taken.",
)
CLIENT_POOL_SIZE = integer(
    "client-pool-size",
    2,
    "Connections of Java's pool.",
    no_effect("each thread has a connection of its own"),
    minimum=1,
)
POOL_EVICTION = integer(
    "client-pool-cache.eviction-interval-ms",
    300_000,
    "How long Java keeps an idle pool.",
    no_effect("there is no pool"),
    minimum=0,
)
CLIENT_CLASS = text(
    "metastore.client.class",
    "org.apache.hadoop.hive.metastore.HiveMetaStoreClient",
    "Java's class of a client. That of AWS Glue is refused: take the kind 'glue'.",
)

SASL = boolean("hive.metastore.sasl.enabled", False, "Kerberos: only false is taken.")
SSL = boolean("hive.metastore.use.SSL", False, "TLS to the metastore: only false is taken.")

_OF_BOTH: tuple[Option[Any], ...] = (
    LOCATION_IN_PROPERTIES,
    SYNC_ALL_PROPERTIES,
    TABLE_TYPE,
    FORMAT_TABLE_ENABLED,
    CASE_SENSITIVE,
)

HIVE_OPTIONS: tuple[Option[Any], ...] = (
    URI,
    HIVE_CONF_DIR,
    SOCKET_TIMEOUT,
    *_OF_BOTH,
    ALTER_TABLE_CASCADE,
    SKIP_UPDATE_STATS,
    LOCK_ENABLED,
    LOCK_ACQUIRE_TIMEOUT,
    LOCK_CHECK_MAX_SLEEP,
    LOCK_TYPE,
    CLIENT_POOL_SIZE,
    POOL_EVICTION,
    CLIENT_CLASS,
    SASL,
    SSL,
)

GLUE_REGION = text("glue.region", None, "AWS region. By default that of the environment.")
GLUE_ENDPOINT = text(
    "glue.endpoint", None, "Address of the service, where it is another than AWS's."
)
GLUE_ID = text("glue.id", None, "Account whose catalog it is. By default the caller's own.")
GLUE_PROFILE = text("glue.profile-name", None, "Profile of ~/.aws to take credentials from.")
GLUE_ACCESS_KEY = text("glue.access-key-id", None, "Access key. By default the environment's.")
GLUE_SECRET_KEY = text("glue.secret-access-key", None, "Secret key. It goes into no copy.")
GLUE_SESSION_TOKEN = text("glue.session-token", None, "Token of keys that end.")
GLUE_MAX_RETRIES = integer(
    "glue.max-retries", 10, "Tries of a read that the service throttles or does not answer.",
    minimum=0,
)  # fmt: skip
GLUE_SKIP_ARCHIVE = boolean(
    "glue.skip-archive", True, "Whether a change of an entry keeps no older version of it."
)

GLUE_OPTIONS: tuple[Option[Any], ...] = (
    GLUE_REGION,
    GLUE_ENDPOINT,
    GLUE_ID,
    GLUE_PROFILE,
    GLUE_ACCESS_KEY,
    GLUE_SECRET_KEY,
    GLUE_SESSION_TOKEN,
    GLUE_MAX_RETRIES,
    GLUE_SKIP_ARCHIVE,
    *_OF_BOTH,
)
