"""Opens a catalog in a Hive Metastore or in Glue by its options."""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tidelake.catalog.catalog_options import CatalogOptions, CatalogRequest
from tidelake.catalog.hive import options as declared
from tidelake.catalog.hive.connection import MetastoreConnection, parse_addresses
from tidelake.catalog.hive.glue_register import GlueAccess, GlueRegister
from tidelake.catalog.hive.lock import MetastoreLock
from tidelake.catalog.hive.metastore import HiveMetastore
from tidelake.catalog.hive.register import Register
from tidelake.catalog.hive.table_entries import EntrySettings
from tidelake.catalog.hive.thrift_register import ThriftRegister
from tidelake.catalog.warehouse import Warehouse
from tidelake.errors import InvalidInputError, UnsupportedError, shortened
from tidelake.fileio import FileIO
from tidelake.fileio.hdfs.settings import USER, system_user
from tidelake.fileio.location import Location, parse_location
from tidelake.fileio.opening import open_storage
from tidelake.fileio.secret import SentSecrets
from tidelake.options import parse_value
from tidelake.telemetry import Env

HIVE_SITE = "hive-site.xml"
HIVE_CONF_DIR = "HIVE_CONF_DIR"
WAREHOUSE = "hive.metastore.warehouse.dir"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_ROOT = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*://[^/]*)/?")


def hive_metastore(request: CatalogRequest) -> HiveMetastore:
    """Open a catalog in a Hive Metastore; asks it once.

    Raises
    ------
    InvalidInputError, UnsupportedError
        An option is missing, wrong or not supported; thriftpy2 is not installed.
    StorageError
        The metastore cannot be reached.
    """
    options, site = request.options, _hive_site(request.options)
    _refuse_unspoken(options, site)
    uri = options.get(declared.URI) or site.get("hive.metastore.uris")
    if not uri:
        message = (
            f"The catalog needs the option 'uri': {declared.URI.description} Give 'uri' ="
            " 'thrift://host:9083', or 'hive-conf-dir'."
        )
        raise InvalidInputError(message, kind="catalog_option", option="uri")
    connection = MetastoreConnection(
        parse_addresses(uri), timeout_ms=_timeout_ms(options, site), user=_user()
    )
    register = ThriftRegister(
        connection,
        cascade=options.get(declared.ALTER_TABLE_CASCADE),
        keeps_stats=options.get(declared.SKIP_UPDATE_STATS),
    )
    return _metastore(
        request,
        register,
        request.warehouse or _warehouse_of(site),
        connection=connection,
    )


def glue_metastore(request: CatalogRequest) -> HiveMetastore:
    """Open a catalog in AWS Glue; asks it once.

    Raises
    ------
    InvalidInputError, UnsupportedError
        An option is missing, wrong or not supported; boto3 is not installed.
    StorageError
        The service cannot be reached, or refuses.
    """
    return _metastore(request, GlueRegister(GlueAccess.of(request.options)), request.warehouse)


def _metastore(
    request: CatalogRequest,
    register: Register,
    warehouse: str | None,
    *,
    connection: MetastoreConnection | None = None,
) -> HiveMetastore:
    options = request.options
    for option, why in (
        (declared.FORMAT_TABLE_ENABLED, "tables of plain files are not read by this version"),
        (declared.CASE_SENSITIVE, "a metastore keeps names in lower case"),
    ):
        if options.get(option):
            message = f"'{option.key}' = 'true' is not supported: {why}. Leave it out."
            raise UnsupportedError(message, kind="catalog_option", option=option.key)
    if not warehouse:
        message = "The catalog has no 'warehouse': give the directory of new databases."
        raise InvalidInputError(message, kind="warehouse", option="warehouse")
    place = parse_location(warehouse)
    fileio = request.fileio
    if fileio is None:
        fileio = open_storage(place, request.storage, request.env)
    storages = Storages(place, request.storage, request.env, alone=request.fileio is not None)
    is_locking = None if connection is None else options.get(declared.LOCK_ENABLED)
    lock = MetastoreLock(
        connection,
        enabled=connection is not None and (fileio.is_remote if is_locking is None else is_locking),
        timeout_ms=options.get(declared.LOCK_ACQUIRE_TIMEOUT),
        sleep_ms_max=options.get(declared.LOCK_CHECK_MAX_SLEEP),
        clock=request.env.clock,
    )
    settings = EntrySettings(
        location_in_properties=options.get(declared.LOCATION_IN_PROPERTIES),
        sync_all_properties=options.get(declared.SYNC_ALL_PROPERTIES),
        external=options.get(declared.TABLE_TYPE) == "external",
    )
    root = _ROOT.match(warehouse)
    metastore = HiveMetastore(
        Warehouse(place.path, fileio, request.env.ids),
        "file:" if root is None else root[1],
        register,
        settings,
        lock,
        storages,
        _owner(),
        request.env.clock,
    )
    metastore.databases()  # a wrong address is found now
    return metastore


@dataclass(slots=True)
class Storages:
    """Opens storages of tables and databases that lie elsewhere than the warehouse.

    Parameters
    ----------
    alone : bool
        Whether the caller gave the storage, and all lies there.
    """

    warehouse: Location
    given: Mapping[str, object] | SentSecrets = field(repr=False)
    env: Env
    alone: bool
    opened: dict[tuple[str, str], FileIO] = field(default_factory=dict, repr=False)

    def __reduce__(self) -> tuple[object, ...]:
        given = self.given
        if not isinstance(given, SentSecrets) and given:
            given = SentSecrets({str(k): str(v) for k, v in given.items()})
        return (Storages, (self.warehouse, given, self.env, self.alone))

    def __call__(self, uri: str) -> tuple[FileIO | None, str]:
        """Open the storage of a URI, None for the warehouse's own; and the path there."""
        place = parse_location(uri, what="The location of a table")
        key = (place.scheme, place.authority)
        if self.alone or key == (self.warehouse.scheme, self.warehouse.authority):
            return None, place.path
        if key not in self.opened:
            given = self.given.reveal() if isinstance(self.given, SentSecrets) else self.given
            usable = {} if place.scheme == "file" else given
            self.opened[key] = open_storage(place, usable, self.env)
        return self.opened[key], place.path


def _user() -> str:
    return os.environ.get(USER) or system_user()


def _owner() -> str | None:
    """The user, where nothing depends on it."""
    try:
        return _user()
    except InvalidInputError:
        return None


def _hive_site(options: CatalogOptions) -> dict[str, str]:
    """The properties of ``hive-site.xml``, where there is one."""
    named = options.get(declared.HIVE_CONF_DIR)
    directory = named or os.environ.get(HIVE_CONF_DIR)
    if not directory:
        return {}
    path = Path(directory) / HIVE_SITE
    try:
        root = ElementTree.fromstring(path.read_bytes())
    except (OSError, ElementTree.ParseError) as error:
        if named is None and isinstance(error, FileNotFoundError):
            return {}
        message = f"'hive-conf-dir' = '{shortened(directory)}': {path} cannot be read: {error}."
        raise InvalidInputError(message, kind="catalog_option", option="hive-conf-dir") from error
    found = ((p.findtext("name", "").strip(), p.findtext("value", "").strip()) for p in root)
    return {name: value for name, value in found if name and value}


def _warehouse_of(site: Mapping[str, str]) -> str | None:
    """The warehouse of ``hive-site.xml``; a path alone lies on Hadoop's storage, not here."""
    found = site.get(WAREHOUSE)
    if found is not None and not _SCHEME.match(found):
        message = (
            f"{HIVE_SITE} has '{WAREHOUSE}' = '{shortened(found)}', which Hive takes for a path on"
            " 'fs.defaultFS' of Hadoop: give 'warehouse' with the scheme of that storage, such as"
            f" 'hdfs://host:8020{shortened(found)}', or 'file:{shortened(found)}'."
        )
        raise InvalidInputError(message, kind="warehouse", option="warehouse")
    return found


def _refuse_unspoken(options: CatalogOptions, site: Mapping[str, str]) -> None:
    """Refuse a metastore that wants Kerberos or TLS, and a Java class for another service."""
    for option, what in ((declared.SASL, "Kerberos (SASL)"), (declared.SSL, "TLS")):
        if options.get(option) or site.get(option.key, "").lower() == "true":
            message = (
                f"'{option.key}' = 'true': a metastore with {what} is not supported by this"
                " version. Use one without on a network of your own, or a REST catalog."
            )
            raise UnsupportedError(message, kind="catalog_option", option=option.key)
    client_class = options.get(declared.CLIENT_CLASS)
    if client_class != declared.CLIENT_CLASS.default:
        advice = "take the catalog's kind 'glue'" if "glue" in client_class.lower() else "leave it"
        message = (
            f"'metastore.client.class' = '{shortened(client_class)}' is a class of Java, which"
            f" cannot run here: {advice}{' out' if advice == 'leave it' else ''}."
        )
        raise UnsupportedError(message, kind="catalog_option", option=declared.CLIENT_CLASS.key)


def _timeout_ms(options: CatalogOptions, site: Mapping[str, str]) -> int:
    option = declared.SOCKET_TIMEOUT
    text = options.get(option)
    if text == option.default:
        text = site.get(option.key, text)
    if text.strip().isdecimal():
        return int(text) * 1000
    try:
        return int(str(parse_value(declared.LOCK_CHECK_MAX_SLEEP, text)))
    except ValueError as error:
        message = f"Catalog option '{option.key}' = {shortened(repr(text))} must be {error}."
        raise InvalidInputError(message, kind="catalog_option", option=option.key) from error
