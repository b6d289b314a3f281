"""The buckets of a scan, if equal keys are in one of them: joins on these keys need no shuffle.

A bucket follows from the values of the bucket key alone, by a function of their types. So two
tables agree on a key's bucket if number, function and types are equal.

Files of a table with a primary key are in its order. Where no two files of a bucket overlap, as
after a compaction, the bucket is in that order too, file after file: joins need no sort either.
"""

from __future__ import annotations

import itertools
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidelake.engine.scan import ReadContext, Split, bucket_keys_retyped, file_sections
from tidelake.engine.write import DataFileMeta, FileKeys, MergeSpec
from tidelake.options import declared
from tidelake.options.bucket_mode import BucketMode
from tidelake.types import DataField, TypeRoot

BUCKETS_MIN = 2
ORDERED_FILES_MAX = 256
"""The most files whose order is found out: 20 us each."""
_KEY_TYPES = frozenset(
    {
        TypeRoot.BOOLEAN,
        TypeRoot.TINYINT,
        TypeRoot.SMALLINT,
        TypeRoot.INT,
        TypeRoot.BIGINT,
        TypeRoot.DECIMAL,
        TypeRoot.CHAR,
        TypeRoot.VARCHAR,
        TypeRoot.DATE,
        TypeRoot.TIMESTAMP,
        TypeRoot.TIMESTAMP_LTZ,
    }
)
"""Types whose values have equal bytes if Spark takes them to be equal: no -0.0, no NaN."""


@dataclass(frozen=True, slots=True)
class Buckets:
    """How rows are spread over buckets.

    Parameters
    ----------
    function : str
        The function, and the type of the key. Equal texts give equal buckets.
    sort_keys : tuple of DataField
        The columns by which the files of each bucket are in order, one after the other.
    order : mapping of str to int
        The position of each file in that order, by its name; empty without such columns.
    """

    count: int
    key: DataField
    function: str
    sort_keys: tuple[DataField, ...] = ()
    order: Mapping[str, int] = field(default_factory=dict)

    def hold_for(self, names: Sequence[str], source: Sequence[DataField | None]) -> bool:
        """Whether files were spread like this, and no other column of theirs has a key's name."""
        read = {own.name: (name, own) for name, own in zip(names, source, strict=True) if own}
        known = {key.name: key for key in (self.key, *self.sort_keys)}
        return self.key.name in read and all(
            name == own.name and own.type.as_nullable() == known[name].type.as_nullable()
            for name, own in (read[key] for key in known if key in read)
        )

    def position(self, path: str) -> int:
        """The position of a file in the order of its bucket."""
        return self.order.get(posixpath.basename(path), 0)


def buckets_of(context: ReadContext, splits: Sequence[Split]) -> Buckets | None:
    """The buckets of a planned read; None if its files are not spread by one key and rule.

    Parameters
    ----------
    splits : sequence of Split
        Of one plan. Those of a table whose number of buckets was changed differ.
    """
    schema, options = context.schema, context.options
    mode = BucketMode.of(
        options, has_primary_key=bool(schema.primary_keys), keys_may_move=schema.keys_may_move
    )
    count = options.get(declared.BUCKET)
    if mode is not BucketMode.FIXED or count < BUCKETS_MIN:
        return None
    if any(split.total_buckets != count for split in splits) or bucket_keys_retyped(context):
        return None
    keys = context.fields(schema.bucket_keys)
    if len(keys) != 1 or keys[0].type.root not in _KEY_TYPES:
        return None
    (key,) = keys
    function = f"{options.get(declared.BUCKET_FUNCTION_TYPE)} of {key.type.as_nullable()}"
    order = _order_of(context, splits)
    sort_keys = itertools.takewhile(
        lambda key: key.type.root in _KEY_TYPES, context.fields(schema.trimmed_primary_keys)
    )
    return Buckets(count, key, function, tuple(sort_keys) if order else (), order)


def _order_of(context: ReadContext, splits: Sequence[Split]) -> dict[str, int]:
    """The position of each file, if those of a bucket do not overlap; else empty."""
    if not context.schema.primary_keys:
        return {}
    if sum(split.files_count for split in splits) > ORDERED_FILES_MAX:
        return {}
    of_bucket: dict[int, list[DataFileMeta]] = {}
    for split in splits:
        of_bucket.setdefault(split.bucket, []).extend(split.files)
    keys = FileKeys.of(MergeSpec.of(context.schema, context.options))
    if keys.clustered:
        return {}
    order: dict[str, int] = {}
    for files in of_bucket.values():
        sections = file_sections(files, keys) if len(files) > 1 else ((files,),)
        if any(len(section) > 1 for section in sections):
            return {}
        for section in sections:
            for file in section[0]:
                order[file.file_name] = len(order)
    return order
