"""Methods of a table that change its rows: delete and update."""

from __future__ import annotations

import abc
from collections.abc import Mapping

from tidelake.table.handle.handle import TableHandle
from tidelake.table.rowlevel.delete import delete_rows
from tidelake.table.rowlevel.update import update_rows
from tidelake.table.write.result import CommitIdentity, WriteResult

__all__ = ["RowMethods"]


class RowMethods(abc.ABC):
    """DELETE and UPDATE."""

    @abc.abstractmethod
    def _for_call(self, options: Mapping[str, object] | None) -> TableHandle:
        """The handle for one call."""

    def delete(
        self,
        target: object,
        *,
        commit_user: str | None = None,
        commit_identifier: int | None = None,
        options: Mapping[str, object] | None = None,
    ) -> WriteResult:
        """Delete rows by primary key or by predicate, in one commit.

        Parameters
        ----------
        target : object
            Keys: anything :meth:`write` takes, with the primary-key columns. Or a predicate: SQL
            text (``"v > 10"``), ``col("v") > 10``, or a list of tuples. An append table takes
            predicates only.
        commit_user, commit_identifier, options
            See :meth:`write`.

        Returns
        -------
        WriteResult
            ``rows`` counts the deletes written, or the rows deleted from an append table. It is 0
            for whole partitions, which are dropped in the metadata.

        Notes
        -----
        A predicate is evaluated on the newest snapshot; a row that another writer changes meanwhile
        is deleted with its key. An append table with ``deletion-vectors.enabled`` marks the rows;
        any other append table rewrites the files that hold them. If another commit deletes or moves
        rows of the same files meanwhile, the delete is repeated on the newest snapshot.
        """
        handle = self._for_call(options)
        return delete_rows(
            handle,
            target,
            identity=CommitIdentity.of(handle, commit_user, commit_identifier),
        )

    def update(
        self,
        values: Mapping[str, object],
        where: object = None,
        *,
        commit_user: str | None = None,
        commit_identifier: int | None = None,
        options: Mapping[str, object] | None = None,
    ) -> WriteResult:
        """Set columns of the rows that match to new values, in one commit.

        Parameters
        ----------
        values : dict
            New values by column: a Python value or an Arrow scalar for all rows, or a function. The
            function receives a batch of rows with all columns and their old values, and returns an
            Arrow array (or a list) with one value per row. It may be called several times, each
            time with some of the rows.
        where : str, Predicate or list of tuples, optional
            Which rows: a predicate as of :meth:`delete`; all rows by default.
        commit_user, commit_identifier, options
            See :meth:`write`.

        Returns
        -------
        WriteResult
            ``rows`` counts the rows that matched.

        Raises
        ------
        InvalidInputError
            A column is unknown or of the primary key, a value does not fit its column, or the
            table's merge would not show the new value (``update_lost``). Nothing is visible.
        UnsupportedError
            The merge engine does not show rows as written: aggregation, first-row.
        ConflictError
            Others changed the same rows or files in every attempt; nothing is visible.
        OutcomeUnknownError
            As of :meth:`write`.

        Notes
        -----
        The update reads the newest snapshot. If another commit changes the same rows (in an append
        table: the same files) meanwhile, it is repeated on the newest snapshot, so no change is
        lost. A primary-key table writes the rows back with the kind ``+U``; an append table marks
        the old rows or rewrites their files, as :meth:`delete` does.

        Examples
        --------
        >>> import tempfile, pyarrow as pa, pyarrow.compute as pc, tidelake
        >>> catalog = tidelake.open(tempfile.mkdtemp())
        >>> schema = pa.schema({"k": pa.int64(), "n": pa.int64(), "s": pa.string()})
        >>> table = catalog.create_table("db.t", schema, primary_keys=["k"])
        >>> _ = table.write([{"k": k, "n": k, "s": "new"} for k in range(3)])
        >>> table.update({"s": "seen", "n": lambda rows: pc.add(rows["n"], 10)}, "k > 0").rows
        2
        >>> table.to_arrow().column("n").to_pylist()
        [0, 11, 12]
        """
        handle = self._for_call(options)
        return update_rows(
            handle,
            values,
            where,
            identity=CommitIdentity.of(handle, commit_user, commit_identifier),
        )
