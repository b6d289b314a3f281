"""Methods of a table that change its rows: append, overwrite, upsert, delete, update."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence

from tidelake.errors import UnsupportedError
from tidelake.table.handle.handle import TableHandle
from tidelake.table.rowlevel.delete import delete_rows
from tidelake.table.rowlevel.update import update_rows, upsert_columns
from tidelake.table.write.result import CommitIdentity, WriteResult


class RowMethods(abc.ABC):
    """What is done to rows, by its name."""

    @abc.abstractmethod
    def _for_call(self, options: Mapping[str, object] | None) -> TableHandle:
        """The handle for one call."""

    @abc.abstractmethod
    def write(
        self,
        data: object,
        *,
        mode: str = "append",
        partition: Mapping[str, object] | None = None,
        commit_user: str | None = None,
        commit_identifier: int | None = None,
        options: Mapping[str, object] | None = None,
    ) -> WriteResult:
        """Write rows in one commit."""

    def append(
        self,
        data: object,
        *,
        commit_user: str | None = None,
        commit_identifier: int | None = None,
        options: Mapping[str, object] | None = None,
    ) -> WriteResult:
        """Add rows to a table without a primary key; the rows that it has stay.

        Parameters
        ----------
        data, commit_user, commit_identifier, options
            As of :meth:`write`.

        Raises
        ------
        UnsupportedError
            The table has a primary key: rows would replace those of the same key. Nothing is
            written; :meth:`upsert` does that.
        InvalidInputError, OutcomeUnknownError
            As of :meth:`write`.

        Examples
        --------
        >>> import tempfile, tidelake
        >>> table = tidelake.open(tempfile.mkdtemp()).create_table("db.t", {"n": "INT"})
        >>> table.append([{"n": 1}, {"n": 1}]).rows, table.append([{"n": 1}]).rows, table.count()
        (2, 1, 3)
        """
        handle = self._for_call(options)
        if handle.schema.primary_keys:
            message = (
                f"Table '{handle.identifier}' has a primary key, so new rows replace those of the"
                " same key: use upsert(), or write(), which does the same."
            )
            raise UnsupportedError(message, kind="append_keyed", table=handle.identifier)
        return self.write(
            data, commit_user=commit_user, commit_identifier=commit_identifier, options=options
        )

    def overwrite(
        self,
        data: object,
        *,
        partition: Mapping[str, object] | None = None,
        commit_user: str | None = None,
        commit_identifier: int | None = None,
        options: Mapping[str, object] | None = None,
    ) -> WriteResult:
        """Replace rows by others in one commit: the same as :meth:`write` with that mode.

        Parameters
        ----------
        data, commit_user, commit_identifier, options
            As of :meth:`write`.
        partition : mapping, optional
            Values of some partition columns: these partitions are replaced. Without it, **of a
            partitioned table those partitions are replaced that rows come for**, and the others
            stay; the option ``dynamic-partition-overwrite = false`` replaces the whole table. A
            table without partitions is always replaced as a whole.

        Raises
        ------
        InvalidInputError, UnsupportedError, ConflictError, OutcomeUnknownError
            As of :meth:`write`.

        Examples
        --------
        >>> import tempfile, tidelake
        >>> columns = {"dt": "STRING", "n": "INT"}
        >>> catalog = tidelake.open(tempfile.mkdtemp())
        >>> table = catalog.create_table("db.t", columns, partition_keys=["dt"])
        >>> _ = table.append([{"dt": "mon", "n": 1}, {"dt": "tue", "n": 2}])
        >>> _ = table.overwrite([{"dt": "tue", "n": 3}])
        >>> table.to_arrow().sort_by("dt").to_pylist()
        [{'dt': 'mon', 'n': 1}, {'dt': 'tue', 'n': 3}]
        >>> all_of_it = {"dynamic-partition-overwrite": False}
        >>> _ = table.overwrite([{"dt": "wed", "n": 4}], options=all_of_it)
        >>> table.to_arrow().to_pylist()
        [{'dt': 'wed', 'n': 4}]
        """
        return self.write(
            data,
            mode="overwrite",
            partition=partition,
            commit_user=commit_user,
            commit_identifier=commit_identifier,
            options=options,
        )

    def upsert(
        self,
        data: object,
        *,
        columns: Sequence[str] | None = None,
        commit_user: str | None = None,
        commit_identifier: int | None = None,
        options: Mapping[str, object] | None = None,
    ) -> WriteResult:
        """Insert rows, or replace those of the same primary key, like :meth:`write`.

        Parameters
        ----------
        data, commit_user, commit_identifier, options
            As of :meth:`write`.
        columns : sequence of str, optional
            Set only these columns, for the merge engine ``deduplicate``: the rows hold the primary
            key and these columns, each key once; other columns of the rows are ignored. An existing
            key keeps its other columns; a new one has their defaults, or null. The old rows are
            read, as by :meth:`update`, and no other commit's change is lost.

        Raises
        ------
        InvalidInputError
            As of :meth:`write` and :meth:`update`; with `columns` also a duplicate key, or a new
            key if a column not named is NOT NULL without a default.
        UnsupportedError
            The table has no primary key, or `columns` is given for another merge engine.
        ConflictError, OutcomeUnknownError
            As of :meth:`update`.

        Examples
        --------
        >>> import tempfile, tidelake
        >>> catalog = tidelake.open(tempfile.mkdtemp())
        >>> columns = {"k": "BIGINT", "n": "INT", "s": "STRING"}
        >>> table = catalog.create_table("db.t", columns, primary_keys=["k"])
        >>> _ = table.upsert([{"k": 1, "n": 10, "s": "one"}])
        >>> _ = table.upsert([{"k": 1, "n": 11}, {"k": 2, "n": 20}], columns=["n"])
        >>> table.to_arrow().sort_by("k").to_pylist()
        [{'k': 1, 'n': 11, 's': 'one'}, {'k': 2, 'n': 20, 's': None}]
        """
        handle = self._for_call(options)
        if not handle.schema.primary_keys:
            message = (
                f"Table '{handle.identifier}' has no primary key to upsert by: use append(), or"
                " create it with primary_keys=[...]."
            )
            raise UnsupportedError(message, kind="upsert_append", table=handle.identifier)
        if columns is not None:
            identity = CommitIdentity.of(handle, commit_user, commit_identifier)
            return upsert_columns(handle, data, columns, identity=identity)
        return self.write(
            data, commit_user=commit_user, commit_identifier=commit_identifier, options=options
        )

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
            time with some of the rows. Text is text; text that would compute with columns on Spark
            (``"upper(s)"``) is refused, and stored as ``pa.scalar("upper(s)")``.
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
