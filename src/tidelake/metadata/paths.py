"""The paths of one table's files.

::

    <table>/schema/schema-<N>
            snapshot/snapshot-<N>, LATEST, EARLIEST
            manifest/manifest-<uuid>-<i>, manifest-list-<uuid>-<i>, index-manifest-<uuid>-<i>
            index/index-<uuid>-<i>
            tag/tag-<name>
            branch/branch-<name>/{schema,snapshot,tag,changelog,consumer}
            upkeep/claim-<term>
            <k1>=<v1>/<k2>=<v2>/bucket-<b>/data-<uuid>-<i>.parquet

A branch has schemas, snapshots, tags, changelogs and consumers of its own; manifests, index files,
statistics and data files of all branches lie together in the table's directories.

File names in metadata are data: a name that could leave its directory means damage, and is never
used as a path. Source: ``docs/format/snapshot.md``; Paimon's ``FileStorePathFactory`` (1.3.1).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tidelake.codec.binary_row import decode_row
from tidelake.errors import CorruptError, UnsupportedError
from tidelake.metadata.data_file import DataFileMeta
from tidelake.metadata.index_entry import IndexEntry
from tidelake.metadata.partition_name import escape_name, partition_text
from tidelake.options import Options, declared
from tidelake.types import DataType, TableSchema

NAME_BYTES_MAX = 255
UTF8_BYTES_MAX = 4
"""Bytes of a character."""
POSTPONE_BUCKET = -2
"""The bucket of rows that wait for a compaction to give them one (on disk: never renumber)."""
MAIN_BRANCH = "main"
BRANCH_DIRECTORY = "branch"
"""Directory of a table's branches (on disk: never rename)."""
BRANCH_PREFIX = "branch-"
"""Prefix of a branch's directory (on disk: never rename)."""


@dataclass(frozen=True, slots=True)
class TablePaths:
    """Paths of one table. Picklable.

    Parameters
    ----------
    legacy_partition_name : bool
        Whether values are printed like Java's ``toString``.
    index_beside_data : bool
        Whether index files are in their bucket's directory and not in ``index``.
    branch : str
        The branch whose schemas, snapshots and tags are meant.

    Examples
    --------
    >>> paths = TablePaths("/wh/db.db/t")
    >>> paths.snapshot(3)
    '/wh/db.db/t/snapshot/snapshot-3'
    >>> paths.of_branch("audit").snapshot(3)
    '/wh/db.db/t/branch/branch-audit/snapshot/snapshot-3'
    """

    location: str
    partition_keys: tuple[str, ...] = ()
    partition_types: tuple[DataType, ...] = ()
    default_partition_name: str = "__DEFAULT_PARTITION__"
    legacy_partition_name: bool = True
    index_beside_data: bool = False
    branch: str = MAIN_BRANCH

    @classmethod
    def of(cls, location: str, schema: TableSchema, *, branch: str = MAIN_BRANCH) -> TablePaths:
        """The paths of a table with this schema and its options."""
        options = Options.parse(schema.options)
        return cls(
            location=location,
            partition_keys=schema.partition_keys,
            partition_types=tuple(schema.field(k).type for k in schema.partition_keys),
            default_partition_name=options.get(declared.PARTITION_DEFAULT_NAME),
            legacy_partition_name=options.get(declared.PARTITION_LEGACY_NAME),
            index_beside_data=options.get(declared.INDEX_FILE_IN_DATA_FILE_DIR),
            branch=branch,
        )

    def of_branch(self, branch: str) -> TablePaths:
        """The paths of another branch of the table."""
        return replace(self, branch=branch)

    @property
    def is_main(self) -> bool:
        """Whether these are the paths of the main branch."""
        return self.branch == MAIN_BRANCH

    @property
    def log_dir(self) -> str:
        """Directory of what each branch has for itself: the table's, or the branch's below it."""
        if self.is_main:
            return self.location
        return f"{self.branch_dir}/{BRANCH_PREFIX}{self.branch}"

    @property
    def schema_dir(self) -> str:
        """Directory of the schema files."""
        return f"{self.log_dir}/schema"

    def schema(self, schema_id: int) -> str:
        """One schema file."""
        return f"{self.schema_dir}/schema-{schema_id}"

    @property
    def snapshot_dir(self) -> str:
        """Directory of the snapshots and hints."""
        return f"{self.log_dir}/snapshot"

    def snapshot(self, snapshot_id: int) -> str:
        """One snapshot file."""
        return f"{self.snapshot_dir}/snapshot-{snapshot_id}"

    @property
    def latest_hint(self) -> str:
        """The hint of the newest snapshot."""
        return f"{self.snapshot_dir}/LATEST"

    @property
    def earliest_hint(self) -> str:
        """The hint of the oldest snapshot."""
        return f"{self.snapshot_dir}/EARLIEST"

    @property
    def manifest_dir(self) -> str:
        """Directory of manifests and manifest lists."""
        return f"{self.location}/manifest"

    def manifest(self, name: str) -> str:
        """A manifest or manifest list, by the name in the metadata."""
        return f"{self.manifest_dir}/{plain_name(name)}"

    def index_dir(self, partition: bytes, bucket: int) -> str:
        """The directory of a bucket's index files."""
        if self.index_beside_data:
            return self.bucket_dir(partition, bucket)
        return f"{self.location}/index"

    def index_file(self, partition: bytes, bucket: int, name: str) -> str:
        """An index file of a bucket, by the name in the metadata."""
        return f"{self.index_dir(partition, bucket)}/{plain_name(name)}"

    def index_file_of(self, entry: IndexEntry) -> str:
        """The file of an entry of the index manifest.

        Raises
        ------
        UnsupportedError
            It is outside the table.
        """
        file = entry.file
        if file.external_path is not None:
            message = (
                f"Index file '{file.file_name}' of table {self.location} lies outside the table, at"
                f" {file.external_path}: this version reads only files inside it."
            )
            raise UnsupportedError(message, kind="external_path", file=file.file_name)
        return self.index_file(entry.partition, entry.bucket, file.file_name)

    @property
    def changelog_dir(self) -> str:
        """Directory of the changelogs that outlive their snapshots."""
        return f"{self.log_dir}/changelog"

    def changelog(self, snapshot_id: int) -> str:
        """The copy of an expired snapshot whose changelog is kept."""
        return f"{self.changelog_dir}/changelog-{snapshot_id}"

    @property
    def branch_dir(self) -> str:
        """Directory of the branches, of all branches the same."""
        return f"{self.location}/{BRANCH_DIRECTORY}"

    @property
    def consumer_dir(self) -> str:
        """Directory of the consumers: the progress of readers of changes."""
        return f"{self.log_dir}/consumer"

    @property
    def upkeep_dir(self) -> str:
        """Directory of the claims of maintenance jobs (on disk: never rename)."""
        return f"{self.location}/upkeep"

    def statistics(self, name: str) -> str:
        """A file of statistics, by the name in the snapshot."""
        return f"{self.location}/statistics/{plain_name(name)}"

    @property
    def tag_dir(self) -> str:
        """Directory of the tags."""
        return f"{self.log_dir}/tag"

    def tag(self, name: str) -> str:
        """The file of a tag."""
        return f"{self.tag_dir}/tag-{plain_name(name)}"

    def tag_success_file(self, name: str) -> str:
        """The file that says that a tag was made."""
        return f"{self.tag_dir}/tag-success-file/{plain_name(name)}_SUCCESS"

    def partition_values(self, partition: bytes) -> tuple[object, ...]:
        """The values of a partition's columns.

        Raises
        ------
        CorruptError
            The bytes are not a row of the partition columns.
        """
        return decode_row(partition, self.partition_types)

    def partition_path(self, partition: bytes) -> str:
        """The directory of a partition below the table's, ``""`` without partition columns.

        Examples
        --------
        >>> from tidelake.codec.binary_row import serialize_row
        >>> from tidelake.types import parse_type
        >>> paths = TablePaths("/t", ("p", "d"), (parse_type("STRING"), parse_type("DATE")))
        >>> paths.partition_path(serialize_row(("a/b", 19000), paths.partition_types))
        'p=a%2Fb/d=19000'
        """
        values = self.partition_values(partition)
        parts = zip(self.partition_keys, self.partition_types, values, strict=True)
        return "/".join(
            f"{escape_name(key)}={self._value_name(value, data_type)}"
            for key, data_type, value in parts
        )

    def partition_texts(self, partition: bytes) -> dict[str, str]:
        """The values of a partition as texts, by column; a null one has the default name."""
        values = self.partition_values(partition)
        parts = zip(self.partition_keys, self.partition_types, values, strict=True)
        return {key: self._value_text(value, data_type) for key, data_type, value in parts}

    def _value_name(self, value: object, data_type: DataType) -> str:
        return escape_name(self._value_text(value, data_type))

    def _value_text(self, value: object, data_type: DataType) -> str:
        return partition_text(
            value,
            data_type,
            default_name=self.default_partition_name,
            legacy=self.legacy_partition_name,
        )

    def bucket_dir(self, partition: bytes, bucket: int) -> str:
        """The directory of a bucket."""
        directory = self.partition_path(partition)
        below = f"{directory}/" if directory else ""
        name = "postpone" if bucket == POSTPONE_BUCKET else str(bucket)
        return f"{self.location}/{below}bucket-{name}"

    def data_file(self, partition: bytes, bucket: int, file: DataFileMeta | str) -> str:
        """The path of a data file.

        Raises
        ------
        CorruptError
            The name in the metadata leaves the bucket's directory.
        UnsupportedError
            The file is outside the table.
        """
        if isinstance(file, str):
            return f"{self.bucket_dir(partition, bucket)}/{plain_name(file)}"
        self.check_inside(file.file_name, file.external_path)
        return f"{self.bucket_dir(partition, bucket)}/{plain_name(file.file_name)}"

    def check_inside(self, name: str, external_path: str | None) -> None:
        """Refuse a data file outside the table by an UnsupportedError."""
        if external_path is not None:
            message = (
                f"Data file '{name}' of table {self.location} lies outside the table, at"
                f" {external_path}: this version reads only files inside it."
            )
            raise UnsupportedError(message, kind="external_path", file=name)


def plain_name(name: str) -> str:
    """The same name, if it is one of a file in its own directory.

    Raises
    ------
    CorruptError
        It leaves the directory, or is none.
    """
    if (
        not name
        or "/" in name
        or "\\" in name
        or "\0" in name
        or ".." in name
        or name == "."
        or (
            UTF8_BYTES_MAX * len(name) > NAME_BYTES_MAX
            and len(name.encode(errors="surrogatepass")) > NAME_BYTES_MAX
        )
    ):
        message = (
            f"The metadata names a file {name[:NAME_BYTES_MAX]!r}, which is not a plain file name:"
            " the metadata is damaged. Restore it from a backup."
        )
        raise CorruptError(message, kind="file_name", file=name[:NAME_BYTES_MAX])
    return name


def numbered(name: str, prefix: str) -> int | None:
    """The number in a name like ``snapshot-12``; None for other names.

    Examples
    --------
    >>> numbered("snapshot-12", "snapshot-"), numbered(".snapshot-12.tmp", "snapshot-")
    (12, None)
    """
    digits = name.removeprefix(prefix)
    return int(digits) if digits != name and digits.isascii() and digits.isdigit() else None
