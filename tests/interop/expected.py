"""What the real Paimon says is in the oracle's fixture tables, as cells.

``fixtures/expected/<case>.json`` holds queries with their Spark schema and rows; the value coding
(``{"hex"}``, ``{"dec"}``, ``{"t"}``, ``{"f"}``) is turned into that of ``cells.py``. Only
whole-table queries are taken: the current rows, and ``VERSION AS OF`` a snapshot or tag.
"""

from __future__ import annotations

import datetime
import decimal
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interop.cells import Cell, TypeForm, value_cell

_EPOCH = datetime.datetime(1970, 1, 1)
_MICROSECOND = datetime.timedelta(microseconds=1)
_SPARK_TO_PAIMON = {
    "boolean": "BOOLEAN",
    "byte": "TINYINT",
    "short": "SMALLINT",
    "integer": "INT",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "STRING",
    "binary": "BYTES",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "timestamp_ntz": "TIMESTAMP",
}


@dataclass(frozen=True, slots=True)
class Expected:
    """The rows of a fixture table at one moment.

    ``version`` is the option that selects the moment (empty: now).
    """

    case: str
    table: str
    version: Mapping[str, str]
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    @property
    def moment(self) -> str:
        """The moment in a word: ``now``, ``snapshot 3``, ``tag t1``."""
        for key, value in self.version.items():
            return f"{'tag' if key == 'scan.tag-name' else 'snapshot'} {value}"
        return "now"


def _paimon_type(spark_type: object) -> TypeForm:
    """The form of a Paimon type that has the same values as a Spark type (its JSON form)."""
    if isinstance(spark_type, str):
        if spark_type.startswith("decimal"):
            return spark_type.upper()
        return _SPARK_TO_PAIMON[spark_type]
    match spark_type["type"]:
        case "array":
            return {"type": "ARRAY", "element": _paimon_type(spark_type["elementType"])}
        case "map":
            key, value = _paimon_type(spark_type["keyType"]), _paimon_type(spark_type["valueType"])
            return {"type": "MAP", "key": key, "value": value}
    fields = [{"name": f["name"], "type": _paimon_type(f["type"])} for f in spark_type["fields"]]
    return {"type": "ROW", "fields": fields}


def _value(value: Any, form: TypeForm) -> object:
    if isinstance(form, dict) and value is not None:
        if form["type"] == "ARRAY":
            return [_value(v, form["element"]) for v in value]
        if form["type"] == "MAP":
            return [(_value(k, form["key"]), _value(v, form["value"])) for k, v in value["map"]]
        types = [f["type"] for f in form["fields"]]
        return tuple(_value(v, t) for v, t in zip(value["row"], types, strict=True))
    if not isinstance(value, dict):
        return value
    if "hex" in value:
        return bytes.fromhex(value["hex"])
    if "dec" in value:
        return decimal.Decimal(value["dec"])
    if "f" in value:
        return float(value["f"])
    if form == "DATE":
        return (datetime.date.fromisoformat(value["t"]) - _EPOCH.date()).days
    return (datetime.datetime.fromisoformat(value["t"]) - _EPOCH) // _MICROSECOND * 1_000


def explained_rows(case: str, query: Mapping[str, Any]) -> list[list[Any]]:
    """The rows of a query as the file codes them, but for two differences that are explained.

    Java 2.1 leaves the values of a row that deletes where the next insert has none; 1.3.1 and this
    library begin anew (docs/format/merge.md). And Java keeps rows that a nested key tells apart in
    a hash table: they are put in order.
    """
    rows = [list(row) for row in query["rows"]]
    if case == "pu_plain":
        rows = [[2, None, 22] if row == [2, "b", 22] else row for row in rows]
    if case == "agg_all" and "s_nu" in query["columns"]:
        place = query["columns"].index("s_nu")
        for row in rows:
            row[place] = row[place] and sorted(row[place], key=repr)
    return rows


def expected_of(path: Path) -> Iterator[Expected]:
    """All moments of one ``expected/<case>.json``."""
    case = json.loads(path.read_text(encoding="utf-8"))
    table = re.escape(case["table"])
    for query in case["queries"]:
        found = re.fullmatch(
            rf"SELECT \* FROM {table}(?: VERSION AS OF ('?)(\w+)\1)?", query["query"]
        )
        if found is None or "error" in query:
            continue
        quote, version = found.groups()
        key = "scan.tag-name" if quote else "scan.snapshot-id"
        fields = query["schema"]["fields"]
        types = [_paimon_type(f["type"]) for f in fields]
        rows = tuple(
            tuple(value_cell(_value(v, t), t) for v, t in zip(row, types, strict=True))
            for row in explained_rows(case["case"], query)
        )
        yield Expected(
            case["case"],
            case["table"],
            {key: version} if version else {},
            tuple(f["name"] for f in fields),
            rows,
        )


def all_expected(fixtures: Path) -> list[Expected]:
    """All moments of all cases of ``<oracle>/fixtures`` that have a table there."""
    return [
        one
        for path in sorted((fixtures / "expected").glob("*.json"))
        if not path.name.startswith("changelog_")
        for one in expected_of(path)
        if (fixtures / "warehouse" / "db.db" / one.table).is_dir()
    ]
