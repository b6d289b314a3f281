"""Options of Paimon 2.x that change a table's rows, or the duties of a writer.

A table on disk may have keys that 1.3.1 does not know; they are kept unchanged. The keys here are
refused unless they have their neutral value, because ignoring them would give wrong rows or files.
Source: ``CoreOptions`` of Paimon 2.1-SNAPSHOT, with 111 new keys, which were all reviewed; those
not listed affect only speed, files or other engines' jobs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidelake.options.option import EVERY_ACTION, ON_READ, ON_WRITE, Action


@dataclass(frozen=True, slots=True)
class Paimon2Option:
    """A key, or a family of keys, of Paimon 2.

    Parameters
    ----------
    neutral : str
        The value without effect, as text in any case.
    """

    regex: str
    neutral: str
    reason: str
    actions: frozenset[Action] = EVERY_ACTION


_USE_JAVA = "use Java Paimon 2 for this table"

PAIMON2_OPTIONS = (
    Paimon2Option(
        r"primary-key\.nullable", "false", f"null keys are not covered here; {_USE_JAVA}"
    ),
    Paimon2Option(
        r"sequence\.snapshot-ordering",
        "false",
        f"its newest row is that of the latest snapshot, not of the sequence number; {_USE_JAVA}",
    ),
    Paimon2Option(
        r"write\.sequence-number-init-mode",
        "scan",
        f"its sequence numbers continue from the snapshot's properties; {_USE_JAVA}",
        ON_WRITE,
    ),
    Paimon2Option(
        r"blob-as-descriptor",
        "false",
        f"columns of type BLOB are not covered here; {_USE_JAVA}",
    ),
    Paimon2Option(
        r"chain-table\.enabled",
        "false",
        f"its rows come from several branches; {_USE_JAVA}",
    ),
    Paimon2Option(
        r"postpone\.merge-on-read",
        "false",
        f"its rows are partly in the postpone bucket; {_USE_JAVA}",
    ),
    Paimon2Option(
        r"postpone\.batch-write-fixed-bucket",
        "false",
        "rows always wait in the postpone bucket here; leave it out, and call compact() to make"
        " them visible",
        ON_WRITE,
    ),
    Paimon2Option(
        r"scan\.(fallback-snapshot-branch|fallback-delta-branch)",
        "",
        f"its rows come from several branches; {_USE_JAVA}",
        ON_READ,
    ),
    Paimon2Option(
        r"scan\.bucket", "", "pass a filter on the bucket key instead; unset it", ON_READ
    ),
    Paimon2Option(
        r"scan\.ignore-(corrupt|lost)-files",
        "false",
        "Tidelake never leaves out rows silently; restore the file, or unset it",
        ON_READ,
    ),
    Paimon2Option(
        r"(table-read\.sequence-number|key-value\.sequence_number)\.enabled",
        "false",
        "it adds a column to system tables; unset it",
        ON_READ,
    ),
    Paimon2Option(
        r"blob-field|blob-descriptor-field|blob-view-field|vector-field",
        "",
        f"columns of such types are not covered; {_USE_JAVA}",
    ),
    Paimon2Option(
        r"pk-(bitmap|btree|full-text|multivalue|vector)\.index\.columns",
        "",
        f"a write of Tidelake would not update its indexes; {_USE_JAVA}",
        ON_WRITE,
    ),
)


def paimon2_option_of(key: str) -> Paimon2Option | None:
    """Find the option of Paimon 2 that a key names; None if it may be ignored.

    Examples
    --------
    >>> paimon2_option_of("primary-key.nullable").neutral
    'false'
    >>> paimon2_option_of("manifest-sort.enabled") is None
    True
    """
    for option in PAIMON2_OPTIONS:
        if re.fullmatch(option.regex, key):
            return option
    return None
