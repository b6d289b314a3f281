"""Epochs of a job that is known by its name alone: what its journal and its tables say.

No setting of the source is needed, and no password: its positions are told apart by their texts.
"""

from __future__ import annotations

from tidelake.cdc.command.opening import JOURNALS
from tidelake.cdc.job.epoch_reads import EpochReads
from tidelake.cdc.job.job import JobSettings
from tidelake.cdc.journal.epoch_record import EpochRecord
from tidelake.cdc.journal.journal import FileJournal
from tidelake.cdc.kafka.topic_positions import TopicPositions
from tidelake.cdc.mysql.position import BinlogPositions
from tidelake.cdc.postgres.position import LogPositions
from tidelake.cdc.source.source import Positions
from tidelake.engine.tables import Catalog
from tidelake.errors import CorruptError, NotFoundError, near_names


def epochs_of(catalog: Catalog, job: str) -> EpochReads:
    """Give the epochs of a job of a catalog.

    Raises
    ------
    NotFoundError
        The catalog has no such job: kind ``cdc_no_job``.
    CorruptError
        The journal is damaged.
    """
    folder = f"{catalog.warehouse}/{JOURNALS}"
    known = _jobs(catalog, folder)
    if job not in known:
        there = f" There are: {', '.join(known)}." if known else " There is none."
        hint = near_names(job, known) or there
        message = f"'{catalog.uri}' has no job of change data capture '{job}'.{hint}"
        raise NotFoundError(message, kind="cdc_no_job", job=job)
    path = f"{folder}/{job}"
    records = FileJournal(catalog.fileio, path, job).history()
    positions = _positions(records, path)
    return EpochReads(catalog, job, JobSettings(job).user, positions, records)


def _jobs(catalog: Catalog, folder: str) -> list[str]:
    try:
        return sorted(file.name for file in catalog.fileio.list_dir(folder) if file.is_dir)
    except NotFoundError:
        return []


def _positions(records: list[EpochRecord], path: str) -> Positions:
    """What the source of some records says of its positions: their texts differ by source."""
    kinds = (LogPositions(), BinlogPositions(), TopicPositions())
    for kind in kinds:
        if all(kind.is_position(record.end) for record in records):
            return kind
    message = f"The journal {path} has positions of no source that is known: {records[-1].end!r}."
    raise CorruptError(message, kind="cdc_journal_damaged", path=path)
