"""What Paimon's test messages of change events mean, read by the rules of its record parsers.

An oracle: it shares no code with :mod:`tidelake.cdc.kafka`, reads one message at a time and keeps
values as the message has them. :func:`fitting` says whether a value of ours is a message's.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import re
import struct
from decimal import Decimal, InvalidOperation

FORMATS = {
    "canal": "canal-json", "maxwell": "maxwell-json", "ogg": "ogg-json", "aws-dms": "aws-dms-json",
    "aliyun": "aliyun-json", "json": "json", "debezium": "debezium-json",
}  # fmt: skip
"""By the folder of the messages; two more have BSON, and JSON for a writer of Avro."""
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_EPOCH = dt.datetime(1970, 1, 1)


def messages(path):
    """The JSON documents of a file as texts; a key of Kafka stands before its value."""
    text, at, found = _COMMENT.sub("", path.read_text()), 0, []
    decoder = json.JSONDecoder()
    while True:
        while at < len(text) and text[at].isspace():
            at += 1
        if at == len(text):
            return found
        _, end = decoder.raw_decode(text, at)
        found.append(text[at:end])
        at = end


def changes(form, document):
    """Rows that a message changes: (table, kind, row); None for a key."""
    return _READERS[form](document)


def _updated(table, old, new, keys):
    """Paimon deletes and inserts; an update is one row here, but for a key that changed."""
    moved = any(old.get(key) != new.get(key) for key in keys)
    return [*([(table, "-D", old)] if moved else []), (table, "+U", new)]


def _canal(d):
    if d.get("isDdl"):
        return []
    table, types, found = d.get("table"), d.get("mysqlType"), []
    for number, row in enumerate(d["data"]):
        whole = {name: row.get(name) for name in types} if types else row
        if d["type"] == "UPDATE":
            old = {**whole, **(d["old"][number] or {})}
            found += _updated(table, old, whole, d.get("pkNames") or [])
        else:
            found.append((table, {"INSERT": "+I", "ROW": "+I", "DELETE": "-D"}[d["type"]], whole))
    return found


def _maxwell(d):
    if d["type"] == "update":
        old = {**d["data"], **d["old"]}
        return _updated(d["table"], old, d["data"], d.get("primary_key_columns") or [])
    return [(d["table"], {"insert": "+I", "delete": "-D"}[d["type"]], d["data"])]


def _ogg(d):
    table = d["table"].rpartition(".")[2]
    if d["op_type"] == "U":
        return _updated(table, d["before"], d["after"], d.get("primary_keys") or [])
    return [(table, "+I", d["after"]) if d["op_type"] == "I" else (table, "-D", d["before"])]


def _dms(d):
    about, row = d["metadata"], d["data"]
    if about["operation"] != "update":
        kind = {"load": "+I", "insert": "+I", "delete": "-D"}[about["operation"]]
        return [(about["table-name"], kind, row)]
    new = {name: value for name, value in row.items() if not name.startswith("BI_")}
    return [(about["table-name"], "+U", new)]


def _aliyun(d):
    payload = d["payload"]
    kind, side = {
        "INSERT": ("+I", "after"), "DELETE": ("-D", "before"), "UPDATE_AFTER": ("+U", "after"),
    }[payload["op"] if "op" in payload else payload["type"]]  # fmt: skip
    return [(d["schema"]["source"]["tableName"], kind, payload[side]["dataColumn"])]


def _debezium(d):
    d = d["payload"] if {"payload", "schema"} <= d.keys() else d
    if "op" not in d:
        return None
    table = d["source"]["table"]
    if d["op"] == "u":
        return [(table, "+U", d["after"])]
    return [(table, "-D", d["before"]) if d["op"] == "d" else (table, "+I", d["after"])]


_READERS = {
    "canal": _canal, "maxwell": _maxwell, "ogg": _ogg, "aws-dms": _dms, "aliyun": _aliyun,
    "debezium": _debezium, "json": lambda d: [(None, "+U", d)],
}  # fmt: skip


def fitting(value, sent, native):
    """Whether a value of ours is the one that a message has.

    Parameters
    ----------
    native : str
        The source's type, as the message names it; empty without one.
    """
    if value is None or sent is None:
        return value is None and sent is None
    if isinstance(value, bool):
        return value == (str(sent).lower() in {"1", "true"})
    if isinstance(value, bytes):
        # Debezium's bits begin with the lowest byte
        return value in {str(sent).encode(), _of_base64(sent)} or value[::-1] == _of_base64(sent)
    if isinstance(value, float):
        narrow = struct.unpack("<f", struct.pack("<f", float(sent)))[0]
        return any(math.isclose(value, one, rel_tol=1e-12) for one in (float(sent), narrow))
    if isinstance(value, int | Decimal):
        return Decimal(value) == Decimal(str(sent))
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return _moment(value) in _moments(sent)
    if isinstance(value, list):
        return value == _labels(native, int(sent))
    if native.lower().startswith("enum"):
        return value in {sent, *_labels(native, 1 << (int(sent) - 1) if sent.isdigit() else 0)}
    if isinstance(sent, bool):
        return value == str(sent).lower()
    if isinstance(sent, dict | list):
        return json.loads(value, parse_float=Decimal) == sent
    return value == sent or _number(value) == _number(sent) is not None


def _of_base64(sent):
    try:
        return base64.b64decode(sent, validate=True)
    except ValueError:
        return None


def _number(text):
    try:
        return Decimal(str(text))
    except InvalidOperation:
        return None


def _labels(native, bits):
    known = re.findall(r"'([^']*)'", native)
    return [label for number, label in enumerate(known) if bits >> number & 1]


def _moment(value):
    if isinstance(value, dt.time):
        return dt.datetime.combine(_EPOCH.date(), value)
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=None)
    return dt.datetime.combine(value, dt.time())


def _moments(sent):
    """The moments that a text or a number of days, milli- or microseconds may mean."""
    if isinstance(sent, str):
        text = sent.removesuffix("Z")
        if re.fullmatch(r"[\d:.]+", text):
            return {_moment(dt.time.fromisoformat(text))}
        return {dt.datetime.fromisoformat(text)}
    found = {_EPOCH + dt.timedelta(days=sent)} if sent < 1_000_000 else set()
    for unit in ("milliseconds", "microseconds"):
        if sent < 10**14 or unit == "microseconds":
            found.add(_EPOCH + dt.timedelta(**{unit: sent}))
    return found
