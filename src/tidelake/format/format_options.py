"""How data files are written: format, compression, statistics, sizes of row groups.

Format, compression and statistics may differ by level, and for changelog files. A format's own
settings that Java's writer knows by the same name apply here if the writer supports them:
``orc.compress``, ``orc.stripe.size``, ``orc.compress.size``, ``orc.row.index.stride``,
``orc.dictionary.key.threshold`` and ``avro.codec``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tidelake.errors import InvalidInputError, UnsupportedError, shortened
from tidelake.format.stats_mode import NO_STATS, StatsMode, StatsRule
from tidelake.options import Options
from tidelake.options.declared import (
    CHANGELOG_FILE_COMPRESSION,
    CHANGELOG_FILE_FORMAT,
    CHANGELOG_FILE_STATS_MODE,
    CHANGELOG_PRODUCER,
    FILE_BLOCK_SIZE,
    FILE_COMPRESSION,
    FILE_COMPRESSION_PER_LEVEL,
    FILE_COMPRESSION_ZSTD_LEVEL,
    FILE_FORMAT,
    FILE_FORMAT_PER_LEVEL,
    FILE_SUFFIX_INCLUDE_COMPRESSION,
    METADATA_STATS_KEEP_FIRST_N_COLUMNS,
    METADATA_STATS_MODE,
    METADATA_STATS_MODE_PER_LEVEL,
)
from tidelake.types import DataField

ROW_GROUP_ROWS = 1_000_000
ROW_GROUP_BYTES = 128 << 20

CODECS: Mapping[str, Mapping[str, str]] = {
    "parquet": {
        "zstd": "zstd",
        "snappy": "snappy",
        "gzip": "gzip",
        "lz4": "lz4",
        "lz4_raw": "lz4",
        "none": "none",
        "uncompressed": "none",
    },
    "orc": {
        "zstd": "zstd",
        "zlib": "zlib",
        "snappy": "snappy",
        "lz4": "lz4",
        "none": "uncompressed",
    },
    "avro": {
        "zstd": "zstandard",
        "zstandard": "zstandard",
        "snappy": "snappy",
        "deflate": "deflate",
        "null": "null",
    },
}
"""Values of ``file.compression`` that Java's writer of a format accepts too, and their names in the
format's own writer here."""

_FILE_EXTENSIONS = {"none": "", "gzip": "gz", "bzip2": "bz2", "zstd": "zst"}
"""The name of a compression in file names; itself if not listed (on disk)."""

_CODEC_OPTIONS = {"orc": "orc.compress", "avro": "avro.codec"}
"""A format's own options, which override ``file.compression``, as in Java."""

_ORC_BLOCK_BYTES = "orc.stripe.size"
_ORC_COMPRESSION_BLOCK_BYTES = "orc.compress.size"
_ORC_INDEX_ROWS = "orc.row.index.stride"
_ORC_DICTIONARY_SHARE = "orc.dictionary.key.threshold"


@dataclass(frozen=True, slots=True)
class OrcOptions:
    """Settings of ORC files.

    Parameters
    ----------
    stripe_bytes : int
        Size at which a stripe is written. Larger: fewer seeks, more memory of writers and readers.
    compression_block_bytes : int
        Bytes compressed at once; as Java's default, Arrow's 64 KiB compress worse.
    index_rows : int
        Rows per entry of the row index.
    dictionary_share_max : float
        A text column gets a dictionary if at most this share of its values is distinct.
    """

    stripe_bytes: int = 16 << 20
    compression_block_bytes: int = 256 << 10
    index_rows: int = 10_000
    dictionary_share_max: float = 0.5


@dataclass(frozen=True, slots=True)
class FormatOptions:
    """How to write data files. Picklable.

    Parameters
    ----------
    file_format : str
        ``parquet``, ``orc`` or ``avro``.
    zstd_level : int
        1 to 22. Level 1 costs half of level 3 and gives 4 % larger files.
    stats_mode : str
        ``none``, ``counts``, ``truncate(N)`` or ``full``.
    stats_columns_max : int
        How many columns get statistics; all, if it is negative.
    row_group_rows, row_group_bytes : int
        A row group ends at either (bytes: of the Arrow columns). Small ones repeat dictionaries
        and headers: 100,000 rows cost twice the CPU and 40 % more bytes.
    sorted_columns : frozenset of str
        Integer, date and timestamp columns that ascend along the file: delta encoding stores
        them smaller and faster. Keys and sequence numbers always count as such.
    key_columns : frozenset of str
        The key columns of a thin file, which holds them once, among the table's columns.
    """

    file_format: str = "parquet"
    compression: str = "zstd"
    zstd_level: int = 1
    stats_mode: str = "truncate(16)"
    column_stats_modes: Mapping[str, str] = field(default_factory=dict)
    stats_columns_max: int = -1
    row_group_rows: int = ROW_GROUP_ROWS
    row_group_bytes: int = ROW_GROUP_BYTES
    sorted_columns: frozenset[str] = frozenset()
    key_columns: frozenset[str] = frozenset()
    orc: OrcOptions = OrcOptions()

    @property
    def codec(self) -> str:
        """The codec's name in the format's writer.

        Raises
        ------
        UnsupportedError
            The format does not have it.

        Examples
        --------
        >>> FormatOptions(file_format="avro", compression="ZSTD").codec
        'zstandard'
        """
        codecs = CODECS[self.file_format]
        codec = codecs.get(self.compression.lower())
        if codec is None:
            message = (
                f"This version cannot write compression '{shortened(self.compression)}' into"
                f" {self.file_format} files: set 'file.compression' to one of"
                f" {', '.join(sorted(codecs))}."
            )
            raise UnsupportedError(message, kind="file_compression", option="file.compression")
        return codec

    def within(self, row_group_bytes: int) -> FormatOptions:
        """The same with row groups, or stripes, of so many bytes at most.

        Examples
        --------
        >>> FormatOptions().within(1 << 20).row_group_bytes
        1048576
        """
        stripe_bytes = min(self.orc.stripe_bytes, row_group_bytes)
        return replace(
            self,
            row_group_bytes=min(self.row_group_bytes, row_group_bytes),
            orc=replace(self.orc, stripe_bytes=stripe_bytes),
        )

    def stats_modes(
        self, fields: Sequence[DataField], wanted: frozenset[str]
    ) -> tuple[StatsMode, ...]:
        """The statistics mode of each column of a file; none for unwanted ones.

        Raises
        ------
        InvalidInputError
            A mode is not one of Paimon's.
        """
        own = {
            name: StatsMode.parse(text, option=_stats_mode_key(name))
            for name, text in self.column_stats_modes.items()
        }
        rule = StatsRule(StatsMode.parse(self.stats_mode), own, self.stats_columns_max)
        modes = rule.modes(fields, keys=self.key_columns)
        return tuple(
            m if f.name in wanted else NO_STATS for f, m in zip(fields, modes, strict=True)
        )


def format_options(options: Options, *, level: int = 0, changelog: bool = False) -> FormatOptions:
    """Take the settings of one level's data files from a table's options.

    Parameters
    ----------
    level : int
        The level of the file; 0 in append tables.
    changelog : bool
        Whether it is a changelog file: settings for those override settings for its level.

    Raises
    ------
    UnsupportedError
        The compression is one that the format's readers or this library cannot read.
    InvalidInputError
        A value is invalid.
    """
    file_format = _file_format(options, level=level, changelog=changelog)
    if file_format not in CODECS:
        message = (
            f"This version cannot write data files of format '{shortened(file_format)}': set"
            f" 'file.format' to one of {', '.join(sorted(CODECS))}."
        )
        raise UnsupportedError(message, kind="file_format", option="file.format")
    compression = _per_level(
        options.get(FILE_COMPRESSION_PER_LEVEL), level, options.get(FILE_COMPRESSION)
    )
    stats_mode = _per_level(
        options.get(METADATA_STATS_MODE_PER_LEVEL), level, options.get(METADATA_STATS_MODE)
    )
    if changelog:
        compression = options.get(CHANGELOG_FILE_COMPRESSION) or compression
        stats_mode = options.get(CHANGELOG_FILE_STATS_MODE) or stats_mode
    own_codec = options.raw.get(_CODEC_OPTIONS.get(file_format, ""))
    chosen = FormatOptions(
        file_format=file_format,
        compression=(own_codec or compression).lower(),
        zstd_level=options.get(FILE_COMPRESSION_ZSTD_LEVEL),
        stats_mode=stats_mode,
        column_stats_modes=_column_stats_modes(options.raw),
        stats_columns_max=options.get(METADATA_STATS_KEEP_FIRST_N_COLUMNS),
        orc=_orc_options(options),
    )
    chosen.codec  # noqa: B018 - refuses here and not in the middle of a write
    chosen.stats_modes((), frozenset())
    return chosen


def all_format_options(options: Options) -> Sequence[FormatOptions]:
    """Return all the ways in which a table's files are written.

    They are the default's and each named level's, and those of changelog files where there are any.

    Raises
    ------
    UnsupportedError, InvalidInputError
        As of :func:`format_options`; or a level is not a number.
    """
    levels = {
        _level(text, option.key)
        for option in (
            FILE_FORMAT_PER_LEVEL,
            FILE_COMPRESSION_PER_LEVEL,
            METADATA_STATS_MODE_PER_LEVEL,
        )
        for text in options.get(option)
    }
    has_changelog = options.get(CHANGELOG_PRODUCER) != "none"
    return [
        format_options(options, level=level, changelog=changelog)
        for level in sorted({-1, *levels})
        for changelog in ((False, True) if has_changelog else (False,))
    ]


def orc_zone_moves(options: Options) -> bool:
    """Whether Java's ORC writers move the instants of this table by their own time zone.

    Examples
    --------
    >>> orc_zone_moves(Options.parse({}))
    True
    """
    return options.raw.get("orc.timestamp-ltz.legacy.type", "true").strip().lower() != "false"


def file_suffix(options: Options, *, level: int = 0, changelog: bool = False) -> str:
    """Return the end of the names of a level's data files, or changelog files.

    A name may show the table's compression, whatever the level's compression is, as in Java.

    Examples
    --------
    >>> file_suffix(Options.parse({"file.suffix.include.compression": "true"}))
    '.zst.parquet'
    """
    file_format = _file_format(options, level=level, changelog=changelog)
    compression = options.get(FILE_COMPRESSION).lower()
    extension = _FILE_EXTENSIONS.get(compression, compression)
    if extension and options.get(FILE_SUFFIX_INCLUDE_COMPRESSION):
        return f".{extension}.{file_format}"
    return f".{file_format}"


def _file_format(options: Options, *, level: int, changelog: bool) -> str:
    own = options.get(CHANGELOG_FILE_FORMAT) if changelog else None
    levels = options.get(FILE_FORMAT_PER_LEVEL)
    return (own or _per_level(levels, level, options.get(FILE_FORMAT))).lower()


def _per_level(levels: Mapping[str, str], level: int, default: str) -> str:
    return levels.get(str(level), default)


def _level(text: str, key: str) -> int:
    if not text.isdecimal():
        message = f"Option '{key}' names level '{shortened(text)}'; levels are numbers from 0."
        raise InvalidInputError(message, kind="option_value", option=key)
    return int(text)


def _stats_mode_key(column: str) -> str:
    return f"fields.{column}.stats-mode"


def _column_stats_modes(raw: Mapping[str, str]) -> dict[str, str]:
    prefix, suffix = _stats_mode_key("\0").split("\0")
    return {
        key.removeprefix(prefix).removesuffix(suffix): text
        for key, text in raw.items()
        if key.startswith(prefix) and key.endswith(suffix)
    }


def _orc_options(options: Options) -> OrcOptions:
    default = OrcOptions()
    block_bytes = options.get(FILE_BLOCK_SIZE) or default.stripe_bytes
    given = options.raw
    return OrcOptions(
        stripe_bytes=int(_number(given, _ORC_BLOCK_BYTES, block_bytes, 1, 1 << 40)),
        compression_block_bytes=int(
            _number(
                given, _ORC_COMPRESSION_BLOCK_BYTES, default.compression_block_bytes, 1024, 1 << 23
            )
        ),
        index_rows=int(_number(given, _ORC_INDEX_ROWS, default.index_rows, 0, 2**31 - 1)),
        dictionary_share_max=_number(
            given, _ORC_DICTIONARY_SHARE, default.dictionary_share_max, 0, 1
        ),
    )


def _number(
    raw: Mapping[str, str], key: str, default: float, minimum: float, maximum: float
) -> float:
    text = raw.get(key)
    if text is None:
        return default
    try:
        number = float(text)
    except ValueError:
        number = minimum - 1
    if not minimum <= number <= maximum:
        message = (
            f"Option '{key}' is '{shortened(text)}' but must be a number from {minimum:g} to"
            f" {maximum:g}."
        )
        raise InvalidInputError(message, kind="option_value", option=key)
    return number
