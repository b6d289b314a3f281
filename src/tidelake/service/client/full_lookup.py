"""Lookups with all that may be needed: the service, or the table's files where it has stopped."""

from __future__ import annotations

import pyarrow as pa

from tidelake.service.client.answers import Row, rows_as_dicts, rows_as_table
from tidelake.service.client.keys.key_batch import KeyBatch
from tidelake.service.client.local import LocalAnswers
from tidelake.service.client.lookup import Answer, GoneError, LookupOptions, lookup
from tidelake.service.client.session import Session
from tidelake.service.observe.spans import span


class FullLookup:
    """Looks keys up. Shared by those who share the client."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.local = LocalAnswers(session)
        """The table's files, which answer where the service has stopped."""

    async def dicts(self, keys: KeyBatch, options: LookupOptions) -> list[Row | None]:
        """Give the rows as dicts."""
        if keys.count == 0:
            return []
        answers = await self._answers(keys, options)
        if answers is None:
            return await self._session.caller.aside(self.local.dicts, keys, options)
        return rows_as_dicts(answers, keys.count)

    async def table(self, keys: KeyBatch, options: LookupOptions) -> pa.Table:
        """Give the rows as Arrow, all null where a key has none."""
        if keys.count == 0:
            schema = self._session.table.schema
            names = options.columns or schema.names
            return pa.schema([schema.field(n).with_nullable(True) for n in names]).empty_table()
        answers = await self._answers(keys, options)
        if answers is None:
            return await self._session.caller.aside(self.local.table, keys, options)
        return rows_as_table(answers, keys.count)

    async def _answers(self, keys: KeyBatch, options: LookupOptions) -> list[Answer] | None:
        """Those of the service; None where the table's files are to be read instead."""
        session = self._session
        if self.local.is_on and not self.local.may_ask_again(session.now()):
            return None
        try:
            with span("query.get", session.identifier, keys.count):
                answers = await lookup(session, keys, options)
        except GoneError:
            self.local.turn_on(session.now())
            return None
        self.local.turn_off()
        return answers

    def close(self) -> None:
        """Close the table's files."""
        self.local.close()
