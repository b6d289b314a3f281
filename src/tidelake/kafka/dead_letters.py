"""Handles messages that a format cannot decode: raise, skip, or keep in a table.

The dead-letter table has a row for each such message. Topic, partition and offset are its primary
key, so a repeated batch adds no second row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidelake.engine.messages import BadMessage
from tidelake.engine.tables import Catalog, SystemTable, Table
from tidelake.errors import InvalidInputError
from tidelake.kafka import table_options as own
from tidelake.kafka.definition import KafkaTable
from tidelake.kafka.slice_reader import MessageBlock

FAIL, SKIP = "fail", "skip"
_KEY = ("topic", "partition", "offset")
SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("ms", "UTC")),
        pa.field("reason", pa.string()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
    ]
)


@dataclass(frozen=True, slots=True)
class BadMessages:
    """Takes the bad messages of a read. Picklable."""

    table: KafkaTable
    letters: Table | None

    def take(self, block: MessageBlock, bad: Sequence[BadMessage]) -> None:
        """Handle the bad messages of a block; runs in a task.

        Raises
        ------
        InvalidInputError
            There is one, and the option is to fail.
        """
        action = self.table.options[own.BAD_RECORD]
        if not bad or action == SKIP:
            return
        if action == FAIL:
            first = bad[0]
            offset = block.messages[first.position].offset()
            message = (
                f"The message at offset {offset} of partition {block.part.partition} of topic"
                f" '{block.part.topic}' cannot be read as '{self.table.value.format_name}' of table"
                f" '{self.table.name}': {first.reason}. Set 'scan.bad-record' to 'skip', or to"
                " 'dead-letter' with 'scan.dead-letter-table', to go on without it."
            )
            raise InvalidInputError(
                message,
                kind="kafka_bad_record",
                table=self.table.name,
                topic=block.part.topic,
                partition=block.part.partition,
                offset=offset,
            )
        assert self.letters is not None
        self.letters.write(_letters(block, bad))


def dead_letter_table(table: KafkaTable, catalog: Catalog) -> Table | None:
    """Open the dead-letter table, and create it if it is missing.

    Runs on the driver, before a message is read.

    Raises
    ------
    InvalidInputError
        A table of that name has other columns.
    """
    name = table.options[own.DEAD_LETTER_TABLE]
    if name is None:
        return None
    catalog.create_table(
        name, SCHEMA, primary_keys=_KEY, options={"bucket": "1"}, if_exists="ignore"
    )
    found = catalog.table(name)
    columns = [] if isinstance(found, SystemTable) else [f.name for f in found.table_schema.fields]
    if not isinstance(found, Table) or columns != SCHEMA.names:
        message = (
            f"Table '{name}' is not a dead-letter table: it needs the columns"
            f" {', '.join(SCHEMA.names)}. Give 'scan.dead-letter-table' of table '{table.name}' a"
            " free name: the table is created."
        )
        raise InvalidInputError(message, kind="dead_letter_table", table=name)
    return found


def _letters(block: MessageBlock, bad: Sequence[BadMessage]) -> pa.Table:
    messages = [block.messages[one.position] for one in bad]
    times = [m.timestamp() for m in messages]
    columns = {
        "topic": [block.part.topic] * len(bad),
        "partition": [block.part.partition] * len(bad),
        "offset": [m.offset() for m in messages],
        "timestamp": [ms if kind else None for kind, ms in times],
        "reason": [one.reason for one in bad],
        "key": [m.key() for m in messages],
        "value": [m.value() for m in messages],
    }
    return pa.table(columns, schema=SCHEMA)
