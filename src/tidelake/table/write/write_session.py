"""Rows added in several calls, committed once: ``with table.writer() as out: out.write(rows)``.

1. Opening checks options and commit identity; nothing is written yet.
2. Each ``write`` adds rows to one :class:`~tidelake.table.write.transaction.WriteTransaction`; its
   memory is bounded by ``write-buffer-size``.
3. A clean end of the ``with`` block commits; an exception aborts, and nothing becomes visible. So
   does a failed ``write``, even if its exception is caught inside the block.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from tidelake.errors import ClosedError
from tidelake.table.handle.display import facts_html
from tidelake.table.handle.handle import TableHandle
from tidelake.table.write.result import CommitIdentity, WriteResult
from tidelake.table.write.transaction import WriteTransaction
from tidelake.telemetry import ProcessMark


class WriteSession:
    """One commit in the making; see :meth:`tidelake.Table.writer`. For one thread and process.

    A forked child with a copy of it cannot write or commit; the parent's rows stay, whatever the
    child does with the copy.

    Parameters
    ----------
    handle : TableHandle
        The table.
    identity : CommitIdentity
        Who commits.
    """

    def __init__(self, handle: TableHandle, *, identity: CommitIdentity) -> None:
        self._table = handle.identifier
        self._transaction = WriteTransaction(handle, identity)
        self._replay = self._transaction.replayed()
        if self._replay is None:
            self._transaction.open_writer()
        self._is_open = True
        self._result: WriteResult | None = None
        self._failed = False
        self._mark = ProcessMark()

    @property
    def result(self) -> WriteResult | None:
        """The result of the commit; None before it and after an abort."""
        return self._result

    def __repr__(self) -> str:
        return f"Writer of table {self._table}: {self._state()}"

    def _repr_html_(self) -> str:
        return facts_html(f"Writer of {self._table}", [("state", self._state())])

    def _state(self) -> str:
        if self._result is not None:
            ids = ", ".join(map(str, self._result.snapshot_ids))
            made = f"snapshot {ids}" if ids else "nothing to write"
            return f"committed, {_rows_text(self._result.rows)}, {made}"
        if not self._is_open:
            return "given up"
        return f"open, {_rows_text(self._transaction.rows_count)} taken"

    def write(self, data: object, *, row_kinds: object | None = None) -> None:
        """Take rows; arguments as of :meth:`tidelake.Table.write`.

        Raises
        ------
        InvalidInputError
            Columns, types, nulls or kinds are wrong; the whole commit is aborted.
        ClosedError
            It was committed or aborted before, or was opened before a fork (kind ``forked``):
            two processes would commit the same files.
        """
        self._check_open()
        if self._replay is not None:
            return
        try:
            self._transaction.add(data, row_kinds=row_kinds)
        except BaseException:
            self.abort()
            self._failed = True
            raise

    def commit(self) -> WriteResult:
        """Make the rows visible; the end of a ``with`` block does it.

        Raises
        ------
        ClosedError
            As of :meth:`write`.
        ConflictError, OutcomeUnknownError
            As of :meth:`tidelake.Table.write`.
        """
        self._check_open()
        self._is_open = False
        self._result = self._replay or self._transaction.commit()
        return self._result

    def abort(self) -> None:
        """Abort: drop the rows and delete their files; does nothing after a commit.

        In a forked child no file is deleted: they are the parent's.
        """
        self._is_open = False
        self._transaction.abort()

    def _check_open(self) -> None:
        self._mark.check(f"This writer of table '{self._table}'")
        if not self._is_open:
            message = (
                f"This writer of table '{self._table}' was committed or aborted: open"
                " a new one with writer()."
            )
            raise ClosedError(message, kind="writer", table=self._table)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self.abort()
        elif self._is_open or self._failed:  # else it was ended inside the block
            self.commit()


def _rows_text(count: int) -> str:
    return "1 row" if count == 1 else f"{count:,} rows"
