"""Tables in memory and their changes as messages, the way Debezium and Maxwell send them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

DATABASE, SCHEMA = "shop", "public"


def debezium(table, op, before, after, lsn, *, ms=1_700_000_000_000, schema=None):
    """An envelope of PostgreSQL; `schema` is a list of Kafka Connect's fields of a row."""
    source = {
        "version": "3.6.1.Final", "connector": "postgresql", "name": "shop", "ts_ms": ms,
        "snapshot": "false", "db": DATABASE, "sequence": f'["{lsn - 8}","{lsn}"]',
        "schema": SCHEMA, "table": table, "txId": 700, "lsn": lsn, "xmin": None,
    }  # fmt: skip
    payload = {"before": before, "after": after, "source": source, "op": op, "ts_ms": ms + 5}
    if schema is None:
        return json.dumps(payload).encode()
    images = [
        {"type": "struct", "fields": schema, "optional": True, "field": name}
        for name in ("before", "after")
    ]
    whole = {"type": "struct", "fields": images, "optional": False, "name": "Envelope"}
    return json.dumps({"schema": whole, "payload": payload}).encode()


def maxwell(table, kind, row, old, position, *, keys=("id",)):
    """A message of Maxwell with the position of its event."""
    message = {
        "database": DATABASE, "table": table, "type": kind, "ts": 1_700_000_000, "xid": 7,
        "position": f"bin.000003:{position}", "data": row, "primary_key_columns": list(keys),
    }  # fmt: skip
    if old is not None:
        message["old"] = old
    return json.dumps(message).encode()


@dataclass(frozen=True)
class Sent:
    """A message: the key by which it finds its partition, and the bytes."""

    table: str
    place: tuple
    key: bytes
    value: bytes


@dataclass
class Tables:
    """Tables that change, and the messages of all changes in their order."""

    form: str = "debezium"
    schemas: dict = field(default_factory=dict)
    rows: dict = field(default_factory=dict)
    sent: list = field(default_factory=list)
    lsn: int = 1_000

    def put(self, table, row):
        rows = self.rows.setdefault(table, {})
        old = rows.get(row["id"])
        rows[row["id"]] = row
        if self.form == "maxwell":
            changed = None if old is None else {n: v for n, v in old.items() if row.get(n) != v}
            self._send(table, row["id"], "insert" if old is None else "update", changed, row)
        else:
            self._send(table, row["id"], "c" if old is None else "u", old, row)

    def delete(self, table, key):
        old = self.rows[table].pop(key)
        if self.form == "maxwell":
            self._send(table, key, "delete", None, old)
        else:
            self._send(table, key, "d", old, None)

    def move(self, table, key, row):
        """Change a row's key: two messages of Debezium, one of Maxwell, under the new key."""
        if self.form != "maxwell":
            self.delete(table, key)
            self.put(table, row)
            return
        old = self.rows[table].pop(key)
        self.rows[table][row["id"]] = row
        changed = {n: v for n, v in old.items() if row.get(n) != v}
        self._send(table, row["id"], "update", changed, row)

    def _send(self, table, key, op, before, after):
        self.lsn += 10
        if self.form == "maxwell":
            value = maxwell(table, op, after, before, self.lsn)
        else:
            value = debezium(table, op, before, after, self.lsn, schema=self.schemas.get(table))
        found = json.dumps({"id": key}).encode()
        self.sent.append(Sent(table, (table, key), found, value))
