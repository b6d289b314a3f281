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

from interop.cells import Cell, value_cell

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

    ``version`` is the option that selects the moment (empty: now); ``nested_column`` names the
    first column of a nested type, for which there are no cells.
    """

    case: str
    table: str
    version: Mapping[str, str]
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    nested_column: str | None = None

    @property
    def moment(self) -> str:
        """The moment in a word: ``now``, ``snapshot 3``, ``tag t1``."""
        for key, value in self.version.items():
            return f"{'tag' if key == 'scan.tag-name' else 'snapshot'} {value}"
        return "now"


def _paimon_type(spark_type: object) -> str | None:
    if not isinstance(spark_type, str):
        return None
    if spark_type.startswith("decimal"):
        return spark_type.upper()
    return _SPARK_TO_PAIMON.get(spark_type)


def _value(value: object, type_text: str) -> object:
    if not isinstance(value, dict):
        return value
    if "hex" in value:
        return bytes.fromhex(value["hex"])
    if "dec" in value:
        return decimal.Decimal(value["dec"])
    if "f" in value:
        return float(value["f"])
    if type_text == "DATE":
        return (datetime.date.fromisoformat(value["t"]) - _EPOCH.date()).days
    return (datetime.datetime.fromisoformat(value["t"]) - _EPOCH) // _MICROSECOND * 1_000


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
        nested = next((f["name"] for f, t in zip(fields, types, strict=True) if t is None), None)
        rows = (
            ()
            if nested
            else tuple(
                tuple(value_cell(_value(v, t), t) for v, t in zip(row, types, strict=True))
                for row in query["rows"]
            )
        )
        yield Expected(
            case["case"],
            case["table"],
            {key: version} if version else {},
            tuple(f["name"] for f in fields),
            rows,
            nested,
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
