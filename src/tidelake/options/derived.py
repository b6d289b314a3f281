"""Values that Paimon derives from several options if one is unset."""

from __future__ import annotations

from tidelake.options import declared
from tidelake.options.table_options import Options
from tidelake.telemetry import Memory

TARGET_FILE_SIZE_BYTES_KEYED = 128 << 20
TARGET_FILE_SIZE_BYTES_APPEND = 256 << 20


def target_file_size_bytes(options: Options, *, has_primary_key: bool) -> int:
    """Size at which a writer begins a new data file.

    Examples
    --------
    >>> target_file_size_bytes(Options.parse({}), has_primary_key=True) >> 20
    128
    """
    given = options.get(declared.TARGET_FILE_SIZE)
    if given is not None:
        return given
    return TARGET_FILE_SIZE_BYTES_KEYED if has_primary_key else TARGET_FILE_SIZE_BYTES_APPEND


def levels_count(options: Options) -> int:
    """Number of levels of a bucket, level 0 included.

    Examples
    --------
    >>> levels_count(Options.parse({}))
    6
    """
    given = options.get(declared.NUM_LEVELS)
    return given if given is not None else _trigger(options) + 1


def sorted_runs_stop(options: Options) -> int:
    """Sorted runs at which a writer waits for compaction; never below the compaction trigger.

    Examples
    --------
    >>> sorted_runs_stop(Options.parse({}))
    8
    """
    given = options.get(declared.NUM_SORTED_RUN_STOP_TRIGGER)
    return _trigger(options) + 3 if given is None else max(given, _trigger(options))


def write_buffer_bytes(options: Options, memory: Memory) -> int:
    """Bytes of rows that a writer buffers: ``write-buffer-size``, or a share of the memory.

    Examples
    --------
    >>> write_buffer_bytes(Options.parse({}), Memory()) >> 20
    256
    >>> write_buffer_bytes(Options.parse({}), Memory.of(256 << 20)) >> 20
    32
    >>> given = Options.parse({"write-buffer-size": "100 mb"})
    >>> write_buffer_bytes(given, Memory.of(256 << 20)) >> 20
    100
    """
    if options.is_set(declared.WRITE_BUFFER_SIZE):
        return options.get(declared.WRITE_BUFFER_SIZE)
    return memory.write_buffer_bytes


def clustering_columns(options: Options) -> tuple[str, ...]:
    """Give the columns that the rows of a table are clustered by; none if it has none.

    Examples
    --------
    >>> clustering_columns(Options.parse({"clustering.columns": "a, b"}))
    ('a', 'b')
    """
    given = options.get(declared.CLUSTERING_COLUMNS) or ""
    return tuple(name.strip() for name in given.split(",") if name.strip())


def file_order_columns(options: Options) -> tuple[str, ...]:
    """Give the columns that order the files above level 0 in place of the key; usually none.

    Examples
    --------
    >>> file_order_columns(Options.parse({"clustering.columns": "a"}))
    ()
    """
    return clustering_columns(options) if options.get(declared.PK_CLUSTERING_OVERRIDE) else ()


def merges_by_lookup(options: Options) -> bool:
    """Whether compactions merge the older row of a key into the newer one, and leave it in place.

    Then a row of level 1 or above counts for all rows of its key beneath. Otherwise it does not.

    Examples
    --------
    >>> given = {"merge-engine": "aggregation", "changelog-producer": "lookup"}
    >>> merges_by_lookup(Options.parse(given)), merges_by_lookup(Options.parse({}))
    (True, False)
    """
    looks_up = options.get(declared.CHANGELOG_PRODUCER) == "lookup"
    return options.get(declared.MERGE_ENGINE) in ("partial-update", "aggregation") and (
        looks_up or options.get(declared.FORCE_LOOKUP)
    )


def _trigger(options: Options) -> int:
    return options.get(declared.NUM_SORTED_RUN_COMPACTION_TRIGGER)
