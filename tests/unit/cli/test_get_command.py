"""``tidelake get``: keys from texts, rows from a service or from files."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest

import tidelake
from tidelake.cli.arguments import UsageError, read_arguments
from tidelake.cli.get_command import keys_of
from tidelake.cli.main import main
from tidelake.errors import InvalidInputError
from tidelake.service.protocol.service_file import (
    ServiceFile,
    service_file_path,
    write_service_file,
)


@pytest.fixture
def catalog(tmp_path):
    catalog = tidelake.open(tmp_path / "lake")
    orders = catalog.create_table(
        "shop.orders",
        {"id": "INT", "item": "STRING", "price": "DECIMAL(10,2)"},
        primary_keys=["id"],
        options={"bucket": 2},
    )
    orders.write([{"id": i, "item": f"item {i}", "price": Decimal("1.50")} for i in range(3)])
    return catalog


@pytest.fixture
def get(catalog, capsys):
    """Run the command; its exit code, its lines, its errors."""

    def run(*argv):
        code = main(["get", "-w", catalog.warehouse, *argv])
        shown = capsys.readouterr()
        return code, shown.out.splitlines(), shown.err.splitlines()

    return run


def test_rows_come_in_the_order_of_the_keys(get):
    code, lines, errors = get("shop.orders", "2", "-1", "0")
    assert code == 0
    assert lines == [
        "id │ item   │ price",
        "───┼────────┼──────",
        " 2 │ item 2 │  1.50",
        " 0 │ item 0 │  1.50",
    ]
    assert errors == ["Not found: -1", "From the table's files, snapshot 1."]


def test_json_has_a_line_for_each_key(get):
    code, lines, errors = get("-d", "shop", "orders", "7", "1", "--json", "--columns", "price,item")
    assert code == 0
    assert lines == ["null", '{"price":1.50,"item":"item 1"}']
    assert errors[0] == "Not found: 7"


def test_a_key_of_several_columns_has_commas(catalog, get):
    days = catalog.create_table(
        "shop.days",
        {"day": "DATE", "place": "STRING", "n": "INT"},
        primary_keys=["day", "place"],
        partition_keys=["day"],
    )
    days.write([{"day": date(2026, 11, 25), "place": "Ulm, Donau", "n": 3}])
    _, lines, _ = get("shop.days", '2026-11-25,"Ulm, Donau"', "--json", "--columns", "n")
    assert lines == ['{"n":3}']
    code, lines, errors = get("shop.days", "2026-11-25")
    assert (code, lines) == (1, [])
    assert errors == [
        "error: The key '2026-11-25' has 1 value, and the primary key of 'shop.days' has 2"
        " columns: day, place."
    ]


def test_keys_are_values_of_their_types(catalog, monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    table = catalog.create_table(
        "shop.all",
        {
            "a": "BOOLEAN",
            "b": "DECIMAL(5,2)",
            "c": "TIMESTAMP(6)",
            "d": "TIMESTAMP_LTZ(3)",
            "e": "VARCHAR(9)",
        },
        primary_keys=["a", "b", "c", "d", "e"],
        options={"bucket": 1},
    )
    text = "true,1.5,2026-11-25 10:00:00.000001,2026-11-25 08:00:00,x"
    keys = keys_of(table, [text])
    assert keys.schema.names == list(table.primary_keys)
    row = keys.to_pylist()[0]
    assert (row["a"], str(row["b"]), row["e"]) == (True, "1.50", "x")
    assert row["c"] == datetime(2026, 11, 25, 10, 0, 0, 1)
    assert row["d"].astimezone(UTC) == datetime(2026, 11, 25, 0, 0, tzinfo=UTC)


def test_what_is_no_key_is_said(catalog, get):
    table = catalog.table("shop.orders")
    with pytest.raises(InvalidInputError, match="'tea' is no key for column 'id'"):
        keys_of(table, ["tea"])
    catalog.create_table("shop.log", {"at": "INT"})
    assert "no primary key" in get("shop.log", "1")[2][0]
    assert "system table" in get("shop.orders$files", "1")[2][0]
    assert "orders" in get("shop.order", "1")[2][0]
    code, _, errors = get("shop.orders", "1", "--columns", "prize")
    assert code == 1
    assert "prize" in errors[0]


def test_the_service_answers_where_there_is_one(catalog, get, monkeypatch):
    orders = catalog.table("shop.orders")
    asked = []

    class Client:
        is_local = False
        snapshot_id = 9

        def __init__(self, *given, **named):
            asked.append((given, named))

        def get_many(self, keys, *, columns):
            return orders.local_query().get_many(keys, columns=columns)

        def close(self):
            asked.append("closed")

    monkeypatch.setattr(tidelake, "lookup_client", Client)
    write_service_file(
        catalog.fileio, orders.handle.paths.location, ServiceFile("10.0.0.1:77", "s1")
    )
    code, lines, errors = get("shop.orders", "1", "--json", "--timeout", "3")
    assert (code, json.loads(lines[0])["item"]) == (0, "item 1")
    assert errors == ["From the service at 10.0.0.1:77, snapshot 9."]
    opened, name = asked[0][0]
    assert (opened.warehouse, name) == (catalog.warehouse, "shop.orders")
    assert (asked[0][1]["deadline_seconds"], asked[0][1]["fallback"]) == (3, True)
    assert asked[1] == "closed"
    Client.is_local = True
    assert get("shop.orders", "1")[2] == [
        "From the table's files (the service at 10.0.0.1:77 does not answer), snapshot 9."
    ]
    assert get("shop.orders", "1", "--local")[2] == ["From the table's files, snapshot 1."]
    assert len(asked) == 4
    path = service_file_path(orders.handle.paths.location)
    catalog.fileio.replace(path, b"garbage")
    assert get("shop.orders", "1")[2] == [
        "From the table's files (its service file is damaged), snapshot 1."
    ]


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("t",), "KEY"),
        (("t", "1", "--timeout", "0"), "above 0"),
        (("t", "1", "--token", "no-such-file"), "--token: there is no file"),
        (("t", "1", "--local", "--token", __file__), "--local does not ask"),
        (("t", "1", "--columns", "a,"), "--columns takes names"),
    ],
)
def test_what_is_wrong_on_the_command_line_is_said(argv, words):
    with pytest.raises(UsageError) as caught:
        read_arguments(["get", "-w", "lake", *argv], {})
    assert words in str(caught.value)
