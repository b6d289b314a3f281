"""``tidelake tail``: what it prints of a table's stream, where it begins and how it ends."""

import errno
import io
import json
import os
import sys
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

import tidelake
from tidelake.cli.arguments import UsageError, read_arguments
from tidelake.cli.main import main
from tidelake.table.stream import follow


@pytest.fixture
def orders(tmp_path):
    catalog = tidelake.open(tmp_path / "lake")
    columns = {"id": "INT", "item": "STRING", "at": "TIMESTAMP_LTZ(3)"}
    options = {"bucket": 1, "changelog-producer": "input"}
    return catalog.create_table("shop.orders", columns, primary_keys=["id"], options=options)


@pytest.fixture
def tail(tmp_path, capsys):
    """Runs the command over what is there; its exit code, its lines, its errors."""

    def run(*argv, table="shop.orders"):
        place = str(tmp_path / "lake")
        given = argv if "--timeout" in argv else ("--timeout", "0", *argv)
        code = main(["tail", "-w", place, table, *given])
        shown = capsys.readouterr()
        return code, shown.out.splitlines(), shown.err

    return run


@pytest.fixture
def meanwhile(monkeypatch):
    """Does something each time the stream waits: what happens in other processes."""

    def during(*actions):
        left = list(actions)

        class Waiter:
            def reset(self):
                pass

            def close(self):
                pass

            def wait(self, _):
                left.pop(0)()

        monkeypatch.setattr(follow, "waiter_of", lambda *_, **__: Waiter())

    return during


def order(id, item, kind="+I"):
    return {"id": id, "item": item, "at": None, "_row_kind": kind}


def interrupt():
    raise KeyboardInterrupt


def test_changes_come_with_their_kinds_as_they_are_committed(orders, tail, meanwhile):
    orders.write([order(1, "tea")])
    meanwhile(
        lambda: orders.write([order(2, "rye")]),
        lambda: orders.write([order(1, "tea", "-U"), order(1, "cocoa", "+U"), order(2, "", "-D")]),
        interrupt,
    )
    code, lines, err = tail("--timeout", "60", "--columns", "item, id")
    assert (code, err) == (130, "")
    assert lines == [
        "op │ item │ id",
        "───┼──────┼───",
        "+I │ rye  │  2",
        "-U │ tea  │  1",
        "+U │ cocoa │  1",
        "-D │      │  2",
    ]


def test_what_was_printed_is_flushed_before_the_stream_waits(orders, tail, meanwhile, monkeypatch):
    seen = []

    class Out(io.StringIO):
        def flush(self):
            seen.append(self.getvalue().count("\n"))

    monkeypatch.setattr(sys, "stdout", Out())
    orders.write([order(1, "tea"), order(2, "rye")])
    meanwhile(lambda: orders.write([order(3, "oat")]), lambda: seen.append("waits"), interrupt)
    code, _, _ = tail("--timeout", "60", "--from", "full", "--format", "csv")
    assert code == 130
    assert seen[:3] == [3, 4, "waits"]


@pytest.mark.parametrize(
    ("start", "ids"),
    [
        (("--from", "latest"), []),
        ((), []),
        (("--from", "full"), [1, 2, 3]),
        (("--from", "FULL"), [1, 2, 3]),
        (("--from", "2"), [2, 3]),
        (("--from", "1970-01-01"), [1, 2, 3]),
        (("--from", "2970-01-01 00:00 UTC"), []),
        (("-o", "scan.snapshot-id=3"), [3]),
    ],
)
def test_where_it_begins(orders, tail, start, ids):
    for id in (1, 2, 3):
        orders.write([order(id, "tea")])
    code, lines, err = tail("--format", "json", *start)
    assert (code, err) == (0, "")
    assert [json.loads(line)["id"] for line in lines] == ids


def test_a_time_is_that_of_this_machine(orders, tail, monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    rows = [{"id": 1, "item": "tea", "at": datetime.fromisoformat("2026-01-01T00:00:00+00:00")}]
    orders.write(rows)
    _, lines, _ = tail("--from", "full", "--format", "csv")
    assert lines == ["op,id,item,at", "+I,1,tea,2026-01-01 08:00:00+08:00"]


def test_it_begins_at_a_time_of_this_machine(orders, tail, monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Shanghai")
    orders.write([order(1, "tea")])
    made = datetime.fromtimestamp(orders.handle.snapshots.load(1).time_ms / 1000, UTC)
    there = made.astimezone(ZoneInfo("Asia/Shanghai")).replace(tzinfo=None)
    for seconds, count in ((-1, 1), (1, 0)):
        start = (there + timedelta(seconds=seconds)).isoformat(" ")
        assert len(tail("--from", start, "--format", "json")[1]) == count


def test_it_ends_after_so_many_rows(orders, tail, meanwhile):
    meanwhile()  # it never waits
    orders.write([order(id, "tea") for id in range(5)])
    orders.write([order(9, "tea")])
    code, lines, _ = tail("--timeout", "60", "--from", "1", "-n", "3", "--format", "csv")
    assert (code, lines) == (0, ["op,id,item,at", *(f"+I,{id},tea," for id in range(3))])


def test_rows_are_filtered_and_options_are_the_streams(orders, tail):
    orders.write([order(1, "tea"), order(2, "rye")])
    orders.write([order(3, "oat")], mode="overwrite")
    given = ("--from", "1", "--format", "csv", "--columns", "id", "--where", "item = 'tea'")
    code, lines, err = tail(*given)
    assert (code, lines) == (1, ["op,id", "+I,1", "-D,2"])
    assert "streaming-read-overwrite" in err
    assert tail(*given, "-o", "streaming-read-overwrite=skip") == (0, ["op,id", "+I,1", "-D,2"], "")


def test_a_consumer_goes_on_where_it_was_also_after_ctrl_c(orders, tail, meanwhile):
    orders.write([order(1, "tea")])
    given = ("--consumer-id", "me", "--from", "full", "--format", "csv", "--columns", "id")
    meanwhile(interrupt)
    assert tail("--timeout", "60", *given)[:2] == (130, ["op,id", "+I,1"])
    orders.write([order(2, "rye")])
    meanwhile(interrupt)
    assert tail("--timeout", "60", *given)[:2] == (130, ["op,id", "+I,2"])
    assert tail(*given) == (0, [], "")


def test_issue_36_a_limit_inside_the_first_rows_loses_none_of_them(orders, tail):
    orders.write([order(number, "tea") for number in (1, 2, 3)])
    given = ("--consumer-id", "me", "--format", "csv", "--columns", "id")
    assert tail(*given, "--from", "full", "--limit", "2") == (0, ["op,id", "+I,1", "+I,2"], "")
    assert tail(*given) == (0, ["op,id", "+I,1", "+I,2", "+I,3"], "")
    assert tail(*given) == (0, [], "")


def test_a_table_that_may_not_be_written_is_followed_with_a_warning(orders, tail, monkeypatch):
    orders.write([{"id": 1, "item": "pen", "at": None}])

    def refuses(*_args, **_kwargs):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    for name in ("mkdir", "link", "replace"):
        monkeypatch.setattr(os, name, refuses)
    code, lines, err = tail("--from", "1", "--format", "csv", "--columns", "id")
    assert (code, lines) == (0, ["op,id", "+I,1"])
    assert err.startswith("warning: A read of table 'shop.orders' goes on without a hold")
    code, _, err = tail("--consumer-id", "c")
    assert code == 1
    assert "Read-only file system" in err


def test_an_append_table_has_inserts(tmp_path, tail):
    table = tidelake.open(tmp_path / "lake").create_table("default.log", {"line": "STRING"})
    table.write([{"line": "a"}])
    assert tail("--from", "full", table="log")[1] == ["op │ line", "───┼─────", "+I │ a"]


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("--columns", "id,itm"), "no column 'itm'. Did you mean 'item'"),
        (("--from", "yesterday"), "--from takes 'latest', 'full', the number of a snapshot"),
        (("--from", "3", "-o", "scan.mode=latest"), "--from 3 and --option scan.mode both set"),
        (("-o", "scan.mod=latest"), "Did you mean 'scan.mode'"),
        (("--where", "itm = 'tea'"), "itm"),
        (("--memory", "plenty"), "plenty"),
    ],
)
def test_what_is_wrong_is_one_line(orders, tail, argv, words):
    code, lines, err = tail(*argv)
    assert (code, lines) == (1, [])
    assert err.startswith("error: ")
    assert words in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ("shop.order", "Did you mean"),
        ("orders", "Database 'default' does not exist"),
        ("shop.orders$files", "system"),
    ],
)
def test_a_table_that_has_no_stream_is_named(orders, tail, table, words):
    code, _, err = tail(table=table)
    assert code == 1
    assert words in err


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("tail",), "TABLE"),
        (("tail", "t"), "TIDELAKE_WAREHOUSE"),
        (("tail", "t", "-w", "x", "--limit", "0"), "--limit takes a whole number from 1 on"),
        (("tail", "t", "-w", "x", "--timeout", "inf"), "--timeout takes a number of seconds"),
        (("tail", "t", "-w", "x", "--option", "a"), "--option takes KEY=VALUE, not 'a'"),
        (("tail", "t", "-w", "x", "--columns", "a,,b"), "names with commas between"),
    ],
)
def test_a_wrong_command_line_is_said(argv, words):
    with pytest.raises(UsageError) as caught:
        read_arguments(argv, {})
    assert words in str(caught.value)
