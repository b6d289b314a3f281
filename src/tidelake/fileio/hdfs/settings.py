"""What ``storage={...}`` may hold for HDFS, and what Hadoop's configuration files say.

1. Our keys (:data:`HDFS_KEYS`) say what the client cannot be told in Hadoop's words: where the
   configuration lies, a Kerberos keytab, how long a call may take.
2. Others are Hadoop's own, in its spelling (``dfs.ha.namenodes.prod``), or with ``hadoop.`` before
   it, as Paimon writes them. Those that the client does not know are refused: it would ignore them.
3. Below them are the files ``core-site.xml`` and ``hdfs-site.xml`` of the directory given, of
   ``HADOOP_CONF_DIR`` or of ``HADOOP_HOME/etc/hadoop``. The client reads them too; here they are
   read for what it leaves out: replication, block size and umask of new files, the default port.

Keys of another storage are left aside, so that one catalog's options may serve several.
"""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from tidelake.errors import InvalidInputError, near_names, shortened
from tidelake.fileio.object_store.settings import (
    PREFIXES,
    StorageKey,
    duration_in_ms,
    is_storage_key,
)

USER, USER_OF_SPARK = "HADOOP_USER_NAME", "SPARK_USER"

PORT = 8020
"""A name node's, where neither the URI nor the configuration tells one."""
TIMEOUT_MS = 120_000
UMASK = 0o022
_HDFS = ("hdfs",)
HDFS_KEYS = (
    StorageKey(
        "conf-dir",
        "text",
        "directory with `core-site.xml` and `hdfs-site.xml`; else `HADOOP_CONF_DIR`",
        _HDFS,
        aliases=("hadoop-conf-dir",),
    ),
    StorageKey("timeout", "duration", "of one call, `120 s` by default", _HDFS),
    StorageKey(
        "kerberos-principal",
        "text",
        "who logs in by the keytab",
        _HDFS,
        aliases=("security.kerberos.login.principal",),
    ),
    StorageKey(
        "kerberos-keytab",
        "text",
        "file with the principal's key",
        _HDFS,
        aliases=("security.kerberos.login.keytab",),
    ),
    StorageKey("kerberos-cache", "text", "ticket cache in place of the default one", _HDFS),
)
_OF_NEW_FILES = ("dfs.replication", "dfs.blocksize", "fs.permissions.umask-mode")
_KNOWN = (
    *_OF_NEW_FILES,
    "fs.defaultFS",
    "hadoop.security.authentication",
    "dfs.nameservices",
    "dfs.data.transfer.protection",
    "dfs.client.use.datanode.hostname",
    "dfs.client.block.write.replace-datanode-on-failure.enable",
    "dfs.client.block.write.replace-datanode-on-failure.policy",
    "dfs.client.block.write.replace-datanode-on-failure.best-effort",
)
_KNOWN_OF_A_SERVICE = (
    "dfs.ha.namenodes.",
    "dfs.namenode.rpc-address.",
    "dfs.client.failover.resolve-needed.",
    "dfs.client.failover.resolver.useFQDN.",
    "dfs.client.failover.random.order.",
    "dfs.client.failover.proxy.provider.",
)
_SIZE = re.compile(r"(\d+)([kmgt]?)", re.IGNORECASE)
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


@dataclass(frozen=True, slots=True)
class HdfsSettings:
    """How to reach HDFS; holds no secret."""

    values: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)
    site: Mapping[str, str] = field(default_factory=dict)

    def text(self, name: str) -> str | None:
        """One of our values; None if it was not given."""
        return self.values.get(name)

    def hadoop(self, key: str) -> str | None:
        """A value of Hadoop's, given or of the files."""
        return self.config.get(key, self.site.get(key))

    @property
    def timeout_s(self) -> float:
        """How long one call may take."""
        return int(self.values.get("timeout", TIMEOUT_MS)) / 1000

    @property
    def is_secure(self) -> bool:
        """Whether Kerberos is asked for."""
        return (self.hadoop("hadoop.security.authentication") or "simple").lower() != "simple"

    @property
    def ticket(self) -> str:
        """Where Kerberos has its ticket from."""
        if "kerberos-keytab" in self.values:
            return f"by the keytab of {self.values['kerberos-principal']}"
        return f"of the cache {self.values.get('kerberos-cache', 'of this user')}"

    @property
    def replication(self) -> int | None:
        """Of new files; None leaves it to the name node."""
        found = self.hadoop("dfs.replication")
        return None if found is None else int(found)

    @property
    def block_bytes(self) -> int | None:
        """Length of a block of new files; None leaves it to the name node."""
        found = self.hadoop("dfs.blocksize")
        return None if found is None else _bytes(found)

    @property
    def umask(self) -> int:
        """Rights that new files and directories do not get."""
        found = self.hadoop("fs.permissions.umask-mode")
        return UMASK if found is None else int(found, 8)

    def client_config(self, service: str) -> dict[str, str]:
        """The client's configuration; each name node is tried once, since waits are ours.

        By itself it would try for three minutes, also where there is no name node at all.
        """
        nodes = self.hadoop(f"dfs.ha.namenodes.{service}") or ""
        # a copy in another process finds the files' name services, though not the files
        site = {key: value for key, value in self.site.items() if _is_honoured(key)}
        return {
            "dfs.client.failover.max.attempts": str(nodes.count(",")),
            "dfs.client.failover.sleep.base.millis": "10",
            "dfs.client.failover.sleep.max.millis": "50",
            **site,
            **self.config,
        }

    def url(self, authority: str) -> str:
        """The client's address of a name node or a name service.

        Raises
        ------
        InvalidInputError
            Neither the URI nor the configuration names one.

        Examples
        --------
        >>> HdfsSettings().url("namenode")
        'hdfs://namenode:8020'
        >>> HdfsSettings(config={"dfs.ha.namenodes.prod": "a,b"}).url("prod")
        'hdfs://prod'
        """
        if not authority:
            authority = _of_default(self.hadoop("fs.defaultFS"))
        if ":" in authority or self.hadoop(f"dfs.ha.namenodes.{authority}") is not None:
            return f"hdfs://{authority}"
        return f"hdfs://{authority}:{PORT}"


def user_name() -> str:
    """The user that a cluster without Kerberos believes: the environment's, or the system's.

    Spark names the user of its driver to each executor, and its Java acts as that one there.
    """
    return os.environ.get(USER) or os.environ.get(USER_OF_SPARK) or system_user()


def system_user() -> str:
    """The user of this process.

    Raises
    ------
    InvalidInputError
        The system has no name for it, as in a container that runs under any number.
    """
    try:
        return getpass.getuser()
    except (KeyError, OSError) as error:
        message = (
            f"The system has no name for user {os.getuid()}, and the servers of Hadoop want one:"
            " set HADOOP_USER_NAME."
        )
        raise InvalidInputError(message, kind="user_name") from error


def act_as_user() -> None:
    """Tell the client, which reads :data:`USER` alone, who Spark's user is.

    The variable is the whole process's: other clients of HDFS in it read it too.
    """
    if not os.environ.get(USER) and os.environ.get(USER_OF_SPARK):
        os.environ[USER] = os.environ[USER_OF_SPARK]


def parse_hdfs_settings(given: Mapping[str, object]) -> HdfsSettings:
    """Parse and check ``storage={...}``, and read Hadoop's configuration files.

    Raises
    ------
    InvalidInputError
        A key is unknown, its value is wrong, or a file cannot be read.

    Examples
    --------
    >>> settings = parse_hdfs_settings({"hadoop.dfs.replication": 2, "hdfs.timeout": "30 s"})
    >>> settings.config, settings.timeout_s
    ({'dfs.replication': '2'}, 30.0)
    >>> parse_hdfs_settings({"dfs.replicaton": "2"})
    Traceback (most recent call last):
    tidelake.errors.InvalidInputError: Storage key 'dfs.replicaton' is unknown. ...
    """
    values: dict[str, str] = {}
    config: dict[str, str] = {}
    for key, value in given.items():
        name = str(key)
        if _is_of_another(name):
            continue
        text = ("true" if value else "false") if isinstance(value, bool) else str(value).strip()
        if not text:
            raise _wrong(name, "is empty")
        found = _ours(name)
        if found is not None:
            values[found.name] = _checked(found, name, text)
        else:
            config[_hadoops(name)] = text
    if ("kerberos-keytab" in values) != ("kerberos-principal" in values):
        message = "Give both 'hdfs.kerberos-principal' and 'hdfs.kerberos-keytab', or neither."
        raise InvalidInputError(message, kind="storage_key")
    settings = HdfsSettings(values, config, _site(values.get("conf-dir")))
    _check_new_files(settings)
    return settings


def _is_of_another(key: str) -> bool:
    mine = any(key.startswith(prefix) for prefix in PREFIXES["hdfs"])
    return not mine and is_storage_key(key)


def _ours(key: str) -> StorageKey | None:
    """Our key of that name, with or without its prefix."""
    plain = re.sub(r"[._]", "-", key.removeprefix("hdfs.")).lower()
    for each in HDFS_KEYS:
        if plain == each.name or key in each.aliases:
            return each
    return None


def _is_honoured(key: str) -> bool:
    """Whether the client, or we, heed a key of Hadoop's."""
    return key in _KNOWN or any(key.startswith(p) and key != p for p in _KNOWN_OF_A_SERVICE)


def _hadoops(key: str) -> str:
    """Hadoop's spelling of a key that the client honours."""
    plain = key.removeprefix("hdfs.config.")
    inner = plain.removeprefix("hadoop.")
    for name in (plain, inner):
        if _is_honoured(name):
            return name
    names = [f"hdfs.{each.name}" for each in HDFS_KEYS]
    services = [f"{prefix}<name service>" for prefix in _KNOWN_OF_A_SERVICE]
    user = " The user's name is that of the environment: HADOOP_USER_NAME." * ("user" in key)
    message = (
        f"Storage key '{shortened(key)}' is unknown.{near_names(plain, [*names, *_KNOWN])}{user}"
        f" Known are: {', '.join((*names, *_KNOWN, *services))}."
    )
    raise InvalidInputError(message, kind="storage_key", key=key)


def _checked(key: StorageKey, given: str, text: str) -> str:
    if key.kind == "duration":
        ms = duration_in_ms(text)
        if not ms:
            raise _wrong(given, "must be a duration such as '30 s'")
        return str(ms)
    if key.name == "conf-dir" and not Path(text).expanduser().is_dir():
        raise _wrong(given, f"names no directory: {shortened(text)}")
    if key.name == "kerberos-keytab" and not os.access(Path(text).expanduser(), os.R_OK):
        raise _wrong(given, f"names a file that cannot be read: {shortened(text)}")
    return text if key.name == "kerberos-principal" else str(Path(text).expanduser())


def _check_new_files(settings: HdfsSettings) -> None:
    for key, check in zip(_OF_NEW_FILES, (_count, _bytes, _mode), strict=True):
        found = settings.hadoop(key)
        if found is None:
            continue
        try:
            check(found)
        except ValueError as error:
            raise _wrong(key, f"is '{shortened(found)}', which is none") from error


def _count(text: str) -> int:
    if not 0 < int(text) < 1 << 15:
        raise ValueError(text)
    return int(text)


def _mode(text: str) -> int:
    if not re.fullmatch(r"0?[0-7]{1,3}", text):  # a symbolic one, 'u=rwx,g=rx', is not read
        raise ValueError(text)
    return int(text, 8)


def _bytes(text: str) -> int:
    """Bytes as Hadoop writes them: ``134217728`` or ``128m``."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(text)
    return int(found.group(1)) << _UNITS[found.group(2).lower()]


def _wrong(key: str, problem: str) -> InvalidInputError:
    return InvalidInputError(f"Storage key '{key}' {problem}.", kind="storage_value", key=key)


def _of_default(default: str | None) -> str:
    """Host of ``fs.defaultFS``, for a URI that names none."""
    found = re.fullmatch(r"hdfs://([^/]+)/*", default or "")
    if found is None:
        message = (
            "The URI names no name node, and 'fs.defaultFS' of Hadoop's configuration is"
            f" {default or 'not set'}: write it as hdfs://host:port/dir."
        )
        raise InvalidInputError(message, kind="warehouse")
    return found.group(1)


def _site(given: str | None) -> dict[str, str]:
    """What the configuration files say."""
    directory = given or os.environ.get("HADOOP_CONF_DIR")
    if directory is None and "HADOOP_HOME" in os.environ:
        directory = f"{os.environ['HADOOP_HOME']}/etc/hadoop"
    found: dict[str, str] = {}
    for name in ("core-site.xml", "hdfs-site.xml") if directory else ():
        file = Path(directory or "", name)
        if file.is_file():
            found.update(_properties(file))
    return found


def _properties(file: Path) -> dict[str, str]:
    try:
        root = ElementTree.fromstring(file.read_text())
    except (OSError, UnicodeDecodeError, ElementTree.ParseError) as error:
        message = f"Hadoop's configuration {file} cannot be read ({error}): correct it."
        raise InvalidInputError(message, kind="storage_value") from error
    found = {}
    for each in root.iter("property"):
        key, value = each.findtext("name"), each.findtext("value")
        if key and value:
            found[key.strip()] = value.strip()
    return found
