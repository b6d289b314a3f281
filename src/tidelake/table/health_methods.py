"""Methods of a table that look after its health."""

from __future__ import annotations

import abc

from tidelake.table.handle.handle import TableHandle
from tidelake.table.health.doctor import examine_table
from tidelake.table.health.finding import Diagnosis
from tidelake.table.health.fsck import check_files
from tidelake.table.health.problem import FilesReport
from tidelake.table.health.repair import RepairPlan, plan_repair


class HealthMethods(abc.ABC):
    """What slows a table, and what would mend it."""

    @property
    @abc.abstractmethod
    def handle(self) -> TableHandle:
        """The table."""

    def doctor(self, *, orphans: bool = False, parallelism: int | None = None) -> Diagnosis:
        """Examine the table: what slows it or takes space, and which call mends it.

        Parameters
        ----------
        orphans : bool
            Whether to look for orphan files too, which lists all directories of the table.
        parallelism : int, optional
            Tasks that write the table at once; by default ``sink.parallelism``, or 1.

        Returns
        -------
        Diagnosis
            ``findings``, warnings first. Each has a ``kind``, a ``cause``, its ``evidence``, the
            ``remedies`` as calls in Python and SQL, and in ``predicted`` what they change of the
            ``figures``. Metadata alone is read, and nothing is changed.

        Raises
        ------
        InvalidInputError
            The parallelism is below 1.
        CorruptError, NotFoundError
            A file of metadata is damaged or lost: see :meth:`fsck`.

        Examples
        --------
        >>> import tempfile, tidelake, pyarrow as pa
        >>> catalog = tidelake.open(tempfile.mkdtemp())
        >>> table = catalog.create_table("db.t", pa.schema({"n": pa.int64()}))
        >>> for n in range(6):
        ...     _ = table.write([{"n": n}])
        >>> finding = table.doctor().of("small_files")
        >>> str(finding.remedies[0]), str(finding.predicted["files_count"])
        ('table.compact()', '6 -> 1')
        >>> _ = table.compact()
        >>> table.doctor()
        <Diagnosis of db.t at snapshot 7: healthy>
        """
        return examine_table(self.handle, orphans=orphans, parallelism=parallelism)

    def fsck(self, *, data: bool = False) -> FilesReport:
        """Check the table's files: whether each snapshot and tag can be read as it was written.

        Parameters
        ----------
        data : bool
            Whether to read all rows and indexes too; by default data files are compared by name and
            length.

        Returns
        -------
        FilesReport
            ``problems``, each with its ``kind``, ``path``, ``what`` is wrong, and the ``snapshots``
            and ``tags`` that it spoils; ``is_whole``; ``whole``, the snapshots without a problem.
            A damaged file never ends the check.

        Examples
        --------
        >>> import os, tempfile, tidelake, pyarrow as pa
        >>> catalog = tidelake.open(tempfile.mkdtemp())
        >>> table = catalog.create_table("db.t", pa.schema({"n": pa.int64()}))
        >>> _ = table.write([{"n": 1}])
        >>> table.fsck(data=True)
        <FilesReport of db.t: no problem in 1 versions and 1 files, rows read>
        >>> [file] = os.listdir(f"{table.location}/bucket-0")
        >>> os.remove(f"{table.location}/bucket-0/{file}")
        >>> [(p.kind, p.what, p.snapshots) for p in table.fsck().problems]
        [('data_file', 'the file is not there', (1,))]
        """
        return check_files(self.handle, data=data)

    def repair_plan(self, *, data: bool = False) -> RepairPlan:
        """Plan what would mend the table's files; nothing is changed.

        Parameters
        ----------
        data : bool
            As of :meth:`fsck`.

        Returns
        -------
        RepairPlan
            ``steps`` in their order, each with ``what`` it does, what it ``loses``, its call and
            the problems that it mends; and the ``report`` of the check.
        """
        return plan_repair(self.handle, data=data)
