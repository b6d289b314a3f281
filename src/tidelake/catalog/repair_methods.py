"""The method of a catalog that lists its tables anew, by their files."""

from __future__ import annotations

import abc
from collections.abc import Mapping

from tidelake.catalog.identifier import Identifier
from tidelake.catalog.metastore import ListingRepair, Metastore, Repair
from tidelake.commit.shown_partitions import show_live_partitions
from tidelake.errors import TidelakeError, UnsupportedError
from tidelake.fileio.name import validate_name
from tidelake.table import SystemTable, Table


class RepairMethods(abc.ABC):
    """What a catalog does whose entries stand beside the files: a Hive Metastore, AWS Glue."""

    @property
    @abc.abstractmethod
    def metastore(self) -> Metastore:
        """What knows the tables."""

    @abc.abstractmethod
    def table(self, identifier: str) -> Table | SystemTable:
        """Open a table."""

    def repair(self, name: str | None = None) -> Mapping[str, Repair]:
        """Make the metastore's entries say what the files say.

        1. A database that has a directory in the warehouse and no entry gets one.
        2. A table whose files lie in its database's directory, and that is not listed, is listed.
        3. An entry gets the columns and options of the newest schema.
        4. With ``metastore.partitioned-table`` it shows the partitions that have files.

        No file is changed, and no entry of a table is dropped.

        Parameters
        ----------
        name : str, optional
            ``"database.table"`` or ``"database"``; by default the whole warehouse.

        Returns
        -------
        mapping of str to {'created', 'changed', 'unchanged'}
            What was done to the entry of each table.

        Raises
        ------
        NotFoundError
            There are no such files.
        InvalidInputError, AlreadyExistsError
            A name has capitals, or belongs to another engine's table. Of several tables the others
            are repaired first.
        UnsupportedError
            The catalog has no entries beside the files.
        """
        repair = self.metastore.listing_repair
        if repair is None:
            message = (
                f"{self.metastore.shown} keeps no entries beside the files, as a Hive Metastore and"
                " AWS Glue do: there is nothing to repair."
            )
            raise UnsupportedError(message, kind="repair")
        if name is not None and "." in name:
            return {name: self._repair_one(repair, Identifier.of(name))}
        if name is not None:
            validate_name(name, "database")
        done: dict[str, Repair] = {}
        failed: list[TidelakeError] = []
        for database in repair.databases() if name is None else [name]:
            try:
                repair.repair_database(database)
                tables = repair.tables(database)
            except TidelakeError as error:
                failed.append(error)
                continue
            for table in tables:
                try:
                    done[f"{database}.{table}"] = self._repair_one(
                        repair, Identifier(database, table)
                    )
                except TidelakeError as error:
                    failed.append(error)
        if failed:
            raise failed[0]
        return done

    def _repair_one(self, repair: ListingRepair, name: Identifier) -> Repair:
        done = repair.repair_table(name)
        table = self.table(str(name))
        if isinstance(table, Table):
            handle = table.handle
            newest = handle.snapshots.latest()
            if show_live_partitions(handle.commit_context(), newest) and done == "unchanged":
                return "changed"
        return done
