"""What a commit changes in each partition: rows, bytes and files, for a catalog's server.

A removed file counts negative, so that a server adds the figures up. Source: Paimon's
``PartitionEntry`` and ``PartitionStatistics`` (1.3.1, 2.1). Pure.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelake.metadata.data_file import FileKind
from tidelake.metadata.manifest.entry_table import EntryTable
from tidelake.metadata.paths import TablePaths


def partition_statistics(entries: EntryTable, paths: TablePaths) -> list[dict[str, Any]]:
    """Sum a commit's entries up by partition.

    Returns
    -------
    list of dict
        Paimon's JSON objects, one per partition; without partition columns, one whose ``spec`` is
        empty.
    """
    if not entries.num_rows:
        return []
    sign = np.where(entries["kind"] == FileKind.ADD, 1, -1)
    numbers = entries["partition_id"]
    made_ms = np.asarray(entries["creation_time_ms"].fill_null(0))
    statistics = []
    for number, partition in enumerate(entries.partitions):
        rows = numbers == number
        if not rows.any():
            continue
        signs = sign[rows]
        statistics.append(
            {
                "spec": paths.partition_texts(partition),
                "recordCount": int((entries["row_count"][rows] * signs).sum()),
                "fileSizeInBytes": int((entries["file_size_bytes"][rows] * signs).sum()),
                "fileCount": int(signs.sum()),
                "lastFileCreationTime": int(made_ms[rows].max()),
                "totalBuckets": int(entries["total_buckets"][rows][0]),
            }
        )
    return statistics
