"""Methods of a table that compare its versions: diff, blame, bisect."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Self

from tidelake.errors import InvalidInputError
from tidelake.options import declared
from tidelake.table.compare.bisection import Bisected, bisect_snapshots, rows_condition
from tidelake.table.compare.blame import KeyChange, blame_key
from tidelake.table.compare.diff import TableDiff, plan_diff
from tidelake.table.handle.handle import TableHandle
from tidelake.table.handle.time_travel import Moment
from tidelake.types.predicate import Predicate, parse_filter

if TYPE_CHECKING:
    from typing import Any


class CompareMethods(abc.ABC):
    """Versions of a table compared."""

    @property
    @abc.abstractmethod
    def handle(self) -> TableHandle:
        """The table."""

    @abc.abstractmethod
    def with_options(self, options: Mapping[str, object]) -> Self:
        """The table with other options for one use."""

    def diff(self, before: Moment, after: Moment | None = None) -> TableDiff:
        """Compare two versions of the table: the rows that differ, from the files that differ.

        Parameters
        ----------
        before, after : int, str, datetime or date
            A snapshot's id, a tag or a time; ``"branch:audit"`` is the newest snapshot of a branch,
            ``"branch:audit@7"`` an older one. `after` is the newest snapshot by default. 0 is the
            empty table. They may stand in any order.

        Returns
        -------
        TableDiff
            Not read yet: ``to_arrow()``, ``to_batches()`` and ``counts()`` read. Rows have
            ``change`` (``added``, ``removed``, ``changed``), the key, ``before``, ``after`` and the
            ``columns`` that differ. A table without a primary key has rows that were added and
            removed, each as often as it was. Rows are read with the columns of `after`.

        Raises
        ------
        NotFoundError
            There is no such snapshot, tag or branch.
        UnsupportedError
            Two branches both changed their columns since they parted.

        Examples
        --------
        >>> import tempfile, tidelake, pyarrow as pa
        >>> catalog = tidelake.open(tempfile.mkdtemp())
        >>> columns = pa.schema({"k": pa.int64(), "v": pa.string()})
        >>> table = catalog.create_table("db.t", columns, primary_keys=["k"])
        >>> _ = table.write([{"k": 1, "v": "a"}, {"k": 2, "v": "b"}])
        >>> _ = table.write([{"k": 2, "v": "c"}])
        >>> table.diff(1, 2).to_pylist()
        [{'change': 'changed', 'k': 2, 'before': {'v': 'b'}, 'after': {'v': 'c'}, 'columns': ['v']}]
        """
        return plan_diff(self.handle, before, after)

    def blame(self, key: object) -> tuple[KeyChange, ...]:
        """Find the commits that changed the row of a key, oldest first.

        Parameters
        ----------
        key : object
            The key: a value, a tuple of a primary key of several columns, or a dict.

        Returns
        -------
        tuple of KeyChange
            Each has ``snapshot_id``, ``time``, ``commit_user``, ``commit_kind``, ``change``, the
            rows ``before`` and ``after``, and the ``columns`` that differ. Snapshots that expired
            are not seen: a row that the oldest snapshot has is ``older``.

        Raises
        ------
        InvalidInputError
            The table has no primary key, or the key does not fit it.

        Examples
        --------
        >>> import tempfile, tidelake, pyarrow as pa
        >>> catalog = tidelake.open(tempfile.mkdtemp())
        >>> columns = pa.schema({"k": pa.int64(), "v": pa.string()})
        >>> table = catalog.create_table("db.t", columns, primary_keys=["k"])
        >>> for value in "aab":
        ...     _ = table.write([{"k": 1, "v": value}])
        >>> [(c.snapshot_id, c.change, c.columns) for c in table.blame(1)]
        [(1, 'added', ()), (3, 'changed', ('v',))]
        """
        return blame_key(self.handle, key)

    def bisect(
        self,
        condition: Callable[[Self], bool] | str | Predicate,
        *,
        good: Moment | None = None,
        bad: Moment | None = None,
    ) -> Bisected:
        """Find the first snapshot for which a condition fails, in ``log2 n`` reads.

        Parameters
        ----------
        condition : callable, str or Predicate
            A function that takes the table at a snapshot, and says whether all is well; or a
            condition on rows that no row may contradict: ``"amount >= 0"``. A row for which it is
            unknown, since a value is null, does not contradict it. Rows are then read with the
            table's current columns, as a function's are with those of the snapshot.
        good, bad : int, str, datetime or date, optional
            A snapshot for which the condition holds and a later one for which it fails; the oldest
            and the newest by default.

        Returns
        -------
        Bisected
            ``first_bad``, ``last_good``, and ``checked``, the snapshots that were read. The two
            ends are read too: ``first_bad`` is None if the condition holds at the end, and
            ``last_good`` is None if it fails at the beginning.

        Raises
        ------
        InvalidInputError
            There is no snapshot in the range, or the condition is none.

        Examples
        --------
        >>> import tempfile, tidelake, pyarrow as pa
        >>> catalog = tidelake.open(tempfile.mkdtemp())
        >>> table = catalog.create_table("db.t", pa.schema({"n": pa.int64()}))
        >>> for n in (5, 3, -1, 7):
        ...     _ = table.write([{"n": n}])
        >>> table.bisect("n >= 0")
        <Bisected: fails from 3, holds at 2; 4 snapshots read>
        >>> table.bisect(lambda version: version.count() < 4).first_bad
        4
        """
        holds: Callable[[int], bool]
        if callable(condition):
            test: Callable[[Self], Any] = condition

            def is_well(number: int) -> bool:
                return bool(test(self.with_options({declared.SCAN_SNAPSHOT_ID.key: number})))

            holds = is_well
        else:
            parsed = parse_filter(condition)
            if parsed is None:
                message = (
                    f"bisect() of table '{self.handle.identifier}' takes a function, or a condition"
                    " on rows such as 'amount >= 0'."
                )
                raise InvalidInputError(message, kind="bad_argument", table=self.handle.identifier)
            holds = rows_condition(self.handle, parsed)
        return bisect_snapshots(self.handle, holds, good=good, bad=bad)
