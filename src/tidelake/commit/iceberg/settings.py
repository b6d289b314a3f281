"""A table's options for Iceberg metadata, and what of the table it shows.

What is shown, as in Java Paimon:

- an append table: all its files;
- a primary-key table: the files of its highest level, which is its state as of the last full
  compaction of each bucket;
- with ``deletion-vectors.enabled``, ``deletion-vectors.bitmap64`` and format version 3: the files
  of all levels but 0, with their deletion vectors. An append table with deletion vectors needs
  these three, because its deleted rows would come back otherwise.

Source: Paimon's ``IcebergOptions`` and ``IcebergCommitCallback``.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelake.errors import UnsupportedError
from tidelake.fileio import FileIO, parent_of
from tidelake.metadata.avro.avro import CODECS
from tidelake.options import Options, declared, levels_count

VERSION_WITH_VECTORS = 3
_DATABASE_SUFFIX = ".db"


@dataclass(frozen=True, slots=True)
class IcebergSettings:
    """The Iceberg metadata of one table.

    Parameters
    ----------
    format_version : int
        2 or 3.
    codec : str
        Compression of manifests, by its name in Avro files.
    has_older_names : bool
        Whether manifest lists have the names of fields that Iceberg 1.4 had.
    level_min : int
        The lowest level that is shown.
    shows_vectors : bool
        Whether deletion vectors are shown.
    merge_count_min, merge_count_max : int
        Small manifests are merged if there are so many and they fill a large one, or at any size.
    versions_kept : int or None
        How many older metadata files are kept; None for all.
    """

    metadata_dir: str
    format_version: int
    codec: str
    has_older_names: bool
    level_min: int
    shows_vectors: bool
    merge_count_min: int
    merge_count_max: int
    manifest_bytes_max: int
    versions_kept: int | None

    @classmethod
    def of(
        cls, options: Options, location: str, *, has_primary_key: bool, table: str
    ) -> IcebergSettings | None:
        """Read a table's options; None if it has no Iceberg metadata.

        Raises
        ------
        UnsupportedError
            The options contradict each other, or the table's directory has no place for them.
        """
        if not _is_wanted(options):
            return None
        version = options.get(declared.METADATA_ICEBERG_FORMAT_VERSION)
        has_vectors = options.get(declared.DELETION_VECTORS_ENABLED)
        shows_vectors = (
            has_vectors
            and options.get(declared.DELETION_VECTORS_BITMAP64)
            and version >= VERSION_WITH_VECTORS
        )
        if has_vectors and not shows_vectors and not has_primary_key:
            message = (
                f"Table '{table}' cannot have Iceberg metadata: Iceberg's readers would see the"
                " rows that its deletion vectors delete. Set 'deletion-vectors.bitmap64' = 'true'"
                f" and 'metadata.iceberg.format-version' = '{VERSION_WITH_VECTORS}'."
            )
            raise UnsupportedError(message, kind="iceberg", table=table)
        level_min = 0
        if has_primary_key:
            level_min = 1 if shows_vectors else levels_count(options) - 1
        keeps_all = not options.get(declared.METADATA_ICEBERG_DELETE_AFTER_COMMIT_ENABLED)
        return cls(
            metadata_dir=_metadata_dir(options, location, table),
            format_version=version,
            codec=CODECS[options.get(declared.METADATA_ICEBERG_MANIFEST_COMPRESSION)],
            has_older_names=options.get(declared.METADATA_ICEBERG_MANIFEST_LEGACY_VERSION),
            level_min=level_min,
            shows_vectors=shows_vectors,
            merge_count_min=options.get(declared.METADATA_ICEBERG_COMPACTION_MIN_FILE_NUM),
            merge_count_max=options.get(declared.METADATA_ICEBERG_COMPACTION_MAX_FILE_NUM),
            manifest_bytes_max=options.get(declared.MANIFEST_TARGET_FILE_SIZE),
            versions_kept=None
            if keeps_all
            else options.get(declared.METADATA_ICEBERG_PREVIOUS_VERSIONS_MAX),
        )

    def metadata_file(self, version: int) -> str:
        """The path of a metadata file."""
        return f"{self.metadata_dir}/v{version}.metadata.json"

    @property
    def hint(self) -> str:
        """The path of the file with the newest version."""
        return f"{self.metadata_dir}/version-hint.text"


def address_of(fileio: FileIO, path: str) -> str:
    """The address by which other programs find a file: a path, or a URI."""
    return fileio.uri_of(path)


def _is_wanted(options: Options) -> bool:
    storage = options.get(declared.METADATA_ICEBERG_STORAGE)
    return storage in declared.METADATA_ICEBERG_STORAGE.coverage.accepted


def _metadata_dir(options: Options, location: str, table: str) -> str:
    place = options.get(declared.METADATA_ICEBERG_STORAGE_LOCATION)
    if place is None:
        is_beside = options.get(declared.METADATA_ICEBERG_STORAGE) == "table-location"
    else:
        is_beside = place == "table-location"
    if is_beside:
        return f"{location}/metadata"
    database_dir = parent_of(location)
    warehouse, database = parent_of(database_dir), database_dir.rpartition("/")[2]
    if not database.endswith(_DATABASE_SUFFIX):
        message = (
            f"Table '{table}' at {location} is not in the directory of a database, which ends with"
            f" '{_DATABASE_SUFFIX}', so Iceberg's Hadoop catalog could not find it: set"
            " 'metadata.iceberg.storage' = 'table-location'."
        )
        raise UnsupportedError(message, kind="iceberg", table=table)
    name = location.rpartition("/")[2]
    below = "" if warehouse == "/" else warehouse
    return f"{below}/iceberg/{database.removesuffix(_DATABASE_SUFFIX)}/{name}/metadata"
