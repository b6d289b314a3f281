"""From offset to offset: what is refused, what is waited for, and what is read between."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

import tidelake
from tidelake.errors import InvalidInputError, NotFoundError, UnsupportedError
from tidelake.table.stream import ReadLimits, StreamOffset, StreamPlan
from tidelake.table.stream.follower import Follower
from tidelake.types.predicate import bind, parse_filter

THREE = [{"k": i, "v": i} for i in range(3)]


def rows_of(parts):
    """Rows as tuples: kind, then values."""
    return [tuple(row.values()) for row in parts.reader().read_all().to_pylist()]


def test_a_stream_gives_the_state_then_each_change(make, follow):
    table = make()
    table.write(THREE)
    given, at = follow(table)
    assert given == [[("+I", 0, 0), ("+I", 1, 1), ("+I", 2, 2)]]
    table.write([{"k": 1, "v": 7}, {"k": 2, "v": None}], row_kinds=["+U", "-D"])
    given, at = follow(table, start=at)
    assert given == [[("+U", 1, 7), ("-D", 2, None)]]
    assert follow(table, start=at) == ([], at)
    assert at.snapshot == 3


def test_parts_ask_nothing_of_the_storage_before_they_are_looked_at(make):
    table = make()
    table.write(THREE)
    plan = StreamPlan.of(table.handle)
    start, end = plan.initial(), plan.latest()
    for path in [f"{table.paths.schema_dir}/schema-0", table.paths.snapshot(1)]:
        table.fileio.delete(path)
    parts = plan.parts(start, end, columns=["v"])
    with pytest.raises(NotFoundError):
        list(parts)


def test_a_part_names_its_snapshot_and_travels(tmp_path):
    table = tidelake.open(tmp_path).create_table(
        "db.t", {"k": "INT NOT NULL", "v": "INT"}, primary_keys=["k"], options={"bucket": "2"}
    )
    table.write(THREE)
    table.write([{"k": 9, "v": 9}])
    plan = StreamPlan.of(table.handle, {"scan.snapshot-id": "1"})
    planned = plan.parts(plan.initial(), plan.latest(), columns=["v"])
    rows, parts = pickle.loads(pickle.dumps((planned.rows, list(planned))))
    read = [(p.snapshot_id, b["v"].to_pylist()) for p in parts for b in rows.read(p.splits)]
    assert sorted(v for snapshot, values in read if snapshot == 1 for v in values) == [0, 1, 2]
    assert [values for snapshot, values in read if snapshot == 2] == [[9]]


def test_parts_that_only_insert_say_so(make):
    table = make(keys=())
    table.write(THREE)
    plan = StreamPlan.of(table.handle)
    [part] = plan.parts(plan.initial(), plan.latest())
    assert [f.row_count for f in part.inserted.files] == [3]
    table.delete("k = 1")
    options = {"streaming-read-overwrite": "diff", "scan.snapshot-id": "2"}
    plan = StreamPlan.of(table.handle, options)
    [part] = plan.parts(plan.initial(), plan.latest())
    assert part.inserted is None
    assert rows_of(plan.parts(plan.initial(), plan.latest())) == [("-D", 1, 1)]


def test_a_filter_leaves_out_rows_and_partitions_but_not_numbers(make):
    table = (
        make(keys=("k",), partitions=("k",), options={"bucket": "-1"})
        if 0
        else make(keys=(), partitions=("k",))
    )
    table.write([{"k": k, "v": v} for k in range(3) for v in range(2)])
    plan = StreamPlan.of(table.handle)
    predicate = bind(parse_filter("k >= 1 and v = 1"), plan.fields)
    start = plan.initial()
    one = plan.next(start, ReadLimits(files=1))
    assert one.index == 1
    assert rows_of(plan.parts(start, one, predicate=predicate)) == []
    assert rows_of(plan.parts(one, plan.latest(), predicate=predicate)) == [
        ("+I", 1, 1),
        ("+I", 2, 1),
    ]


def test_an_empty_table_has_no_beginning_but_that_of_latest(make, follow):
    table = make()
    assert StreamPlan.of(table.handle).initial() is None
    assert StreamPlan.of(table.handle).latest() is None
    plan = StreamPlan.of(table.handle, {"scan.mode": "latest"})
    start = plan.initial()
    assert plan.next(start) == start
    table.write(THREE)
    assert len(rows_of(plan.parts(start, plan.next(start)))) == 3


def test_the_last_batch_stops_where_it_was_told(make):
    table = make()
    table.write(THREE)
    plan = StreamPlan.of(table.handle)
    until = plan.latest()
    table.write([{"k": 9, "v": 9}])
    end = plan.next(StreamOffset(plan.identity, 0, 1), until=until)
    assert end == until
    assert plan.next(end, until=until) == end


def test_compactions_alone_make_no_batch_until_there_are_many(make):
    table = make(options={"write-only": "true"})
    table.write(THREE)
    plan = StreamPlan.of(table.handle)
    at = plan.latest()
    for number in range(20):
        table.maintenance.analyze()
        end = plan.next(at)
        assert (end == at) == (number < 15), number
        if end != at:
            assert rows_of(plan.parts(at, end)) == []
            return
    raise AssertionError("the stream never moved on")


def test_a_poll_without_news_looks_at_two_files(make, monkeypatch):
    table = make()
    table.write(THREE)
    plan = StreamPlan.of(table.handle)
    at = plan.latest()
    asked = []
    fileio = type(table.fileio)
    for name in ("read_bytes", "list_dir", "exists"):
        own = getattr(fileio, name)

        def counted(self, path, *args, _own=own, _name=name, **kwargs):
            asked.append((_name, path.rsplit("/", 1)[1]))
            return _own(self, path, *args, **kwargs)

        monkeypatch.setattr(fileio, name, counted)
    assert plan.next(at) == at
    assert asked == [("read_bytes", "snapshot-2"), ("read_bytes", "snapshot-1")]


# ---- waits


def test_a_batch_waits_for_rows_but_not_for_ever(make, clock):
    table = make()
    table.write(THREE)
    plan = StreamPlan.of(table.handle)
    start, limits = plan.initial(), ReadLimits(min_rows=5, max_delay_ms=1000)
    assert plan.next(start, limits) == start
    assert plan.next(start, limits, until=plan.latest()) == plan.latest()
    clock.sleep_ms(1000)
    assert plan.next(start, limits) == plan.latest()
    clock.sleep_ms(-1000)
    table.write([{"k": 7, "v": 7}, {"k": 8, "v": 8}])
    assert plan.next(start, limits) == plan.latest()


def test_a_delayed_stream_stays_behind(make, clock, follow):
    table = make()
    table.write(THREE)
    options = {"streaming.read.snapshot.delay": "10 s"}
    _, at = follow(table, options)
    table.write([{"k": 7, "v": 7}])
    assert follow(table, options, start=at) == ([], at)
    clock.sleep_ms(10_000)
    assert follow(table, options, start=at)[0] == [[("+I", 7, 7)]]


# ---- refusals


def test_an_expired_offset_is_refused_with_the_range_and_the_remedy(make):
    table = make(options={"snapshot.num-retained.min": "1"})
    for number in range(4):
        table.write([{"k": number, "v": 0}])
    plan = StreamPlan.of(table.handle, {"scan.snapshot-id": "2"})
    start, end = plan.initial(), plan.latest()
    table.maintenance.expire_snapshots(retain_max=1, retain_min=1)
    for refused in (lambda: plan.next(start), lambda: list(plan.parts(start, end))):
        with pytest.raises(
            NotFoundError, match=r"'db\.t' cannot go on at snapshot 2.*expired"
        ) as e:
            refused()
        assert e.value.kind == "stream_expired"
        assert "snapshots 4 to 4 can be read" in str(e.value)
        assert "scan.mode" in str(e.value)


@pytest.mark.parametrize("writes", [1, 9])
def test_a_table_that_was_made_anew_is_refused(make, catalog, clock, writes):
    table = make()
    for number in range(4):
        table.write([{"k": number, "v": 0}])
    plan = StreamPlan.of(table.handle)
    start = plan.latest()
    catalog.drop_table("db.t")
    clock.sleep_ms(5)
    again = make()
    for number in range(writes):
        again.write([{"k": number, "v": 0}])
    with pytest.raises(NotFoundError) as caught:
        list(plan.parts(start, plan.next(start)))
    assert caught.value.kind == "table_recreated"
    reopened = StreamPlan.of(again.handle)
    for refused in (reopened.next, lambda at: list(reopened.parts(at, at))):
        with pytest.raises(NotFoundError, match="dropped and recreated") as caught:
            refused(start)
        assert caught.value.kind == "stream_table_recreated"


def test_a_rolled_back_table_is_refused(make):
    table = make()
    for number in range(4):
        table.write([{"k": number, "v": 0}])
    plan = StreamPlan.of(table.handle)
    at = plan.latest()
    table.rollback_to(snapshot_id=2)
    with pytest.raises(NotFoundError, match="rolled back; snapshots 1 to 2"):
        plan.next(at)


def test_a_batch_whose_snapshots_were_rolled_back_is_refused_not_shortened(make):
    table = make()
    for number in range(4):
        table.write([{"k": number, "v": 0}])
    plan = StreamPlan.of(table.handle)
    start, end = StreamOffset(plan.identity, 0, 3), plan.latest()
    table.rollback_to(snapshot_id=2)
    with pytest.raises(NotFoundError, match="rolled back; snapshots 1 to 2"):
        list(plan.parts(start, end))


def rolled_back_and_written(table, *, to, until):
    """Other commits take the numbers of those that a rollback removed."""
    table.rollback_to(snapshot_id=to)
    for number in range(to + 1, until + 1):
        table.write([{"k": 100 + number, "v": 0}])


@pytest.mark.parametrize("newest", [4, 5, 6], ids=["waits", "one more", "two more"])
def test_a_rollback_and_as_many_commits_are_not_taken_for_what_was_read(make, newest):
    table = make()
    for number in range(4):
        table.write([{"k": number, "v": 0}])
    plan = StreamPlan.of(table.handle)
    at = plan.next(StreamOffset(plan.identity, 0, 1))
    assert (at.snapshot, plan.next(at)) == (5, at)
    rolled_back_and_written(table, to=2, until=newest)
    again = StreamPlan.of(table.handle)
    restarted = again.offset(at.to_json())
    for refused in (lambda: plan.next(at), lambda: again.next(restarted)):
        with pytest.raises(NotFoundError, match=r"'db\.t'.*rolled back.*snapshot 4 is") as e:
            refused()
        assert e.value.kind == "stream_expired"
        assert "'latest-full'" in str(e.value)


def test_a_rollback_to_where_a_stream_is_takes_nothing_from_it(make, follow):
    table = make()
    for number in range(3):
        table.write([{"k": number, "v": 0}])
    _, at = follow(table)
    table.write([{"k": 7, "v": 0}])
    rolled_back_and_written(table, to=3, until=4)
    assert follow(table, start=at)[0] == [[("+I", 104, 0)]]


def test_an_offset_of_an_older_version_goes_on(make, follow):
    table = make()
    table.write(THREE)
    _, at = follow(table)
    older = StreamOffset.from_json(replace(at, before=None).to_json(), table="db.t")
    table.write([{"k": 7, "v": 7}])
    given, end = follow(table, start=older)
    assert given == [[("+I", 7, 7)]]
    assert end.before is not None


def test_a_batch_is_not_read_from_commits_that_took_its_numbers(make):
    table = make()
    for number in range(4):
        table.write([{"k": number, "v": 0}])
    plan = StreamPlan.of(table.handle)
    begin = plan.next(StreamOffset(plan.identity, 0, 1), ReadLimits(files=2))
    end = plan.next(begin)
    assert (begin.snapshot, end.snapshot) == (3, 5)
    rolled_back_and_written(table, to=2, until=4)
    for own in (plan, StreamPlan.of(table.handle)):
        with pytest.raises(NotFoundError, match=r"rolled back.*snapshot 4 is not the one"):
            list(own.parts(begin, end))
    rolled_back_and_written(table, to=1, until=4)
    unmarked = replace(end, before=None)
    for own in (plan, StreamPlan.of(table.handle)):
        with pytest.raises(NotFoundError, match=r"rolled back.*snapshot 2 is not the one"):
            list(own.parts(begin, unmarked))


def test_a_stream_that_began_with_the_latest_sees_a_rollback_too(make):
    table = make()
    for number in range(4):
        table.write([{"k": number, "v": 0}])
    plan = StreamPlan.of(table.handle, {"scan.mode": "latest"})
    begin = plan.initial()
    rolled_back_and_written(table, to=2, until=5)
    with pytest.raises(NotFoundError, match="rolled back"):
        plan.next(begin)


@pytest.mark.parametrize("kept", ["nothing", "a changelog"])
def test_a_stream_goes_on_where_the_snapshot_before_it_expired(make, follow, kept):
    table = make(
        keys=(), options={"changelog.num-retained.max": "99"} if kept == "a changelog" else {}
    )
    for number in range(3):
        table.write([{"k": number, "v": 0}])
    _, at = follow(table)
    for number in (8, 9):
        table.write([{"k": number, "v": 0}])
    table.maintenance.expire_snapshots(retain_max=2, retain_min=2)
    assert table.fileio.exists(table.paths.changelog(3)) == (kept == "a changelog")
    given, _ = follow(table, start=at)
    assert given == [[("+I", 8, 0), ("+I", 9, 0)]]


def test_a_look_at_a_batch_reads_one_small_file_more_and_its_parts_none(make, monkeypatch):
    table = make()
    table.write(THREE)
    plan = StreamPlan.of(table.handle)
    at = plan.latest()
    table.write([{"k": 7, "v": 7}])
    plan.identity, plan.handle.read_context()
    asked = []
    own = type(table.fileio).read_bytes

    def counted(self, path, *args, **kwargs):
        asked.append(path.rsplit("/", 1)[1])
        return own(self, path, *args, **kwargs)

    monkeypatch.setattr(type(table.fileio), "read_bytes", counted)
    end = plan.next(at)
    assert asked == ["snapshot-2", "snapshot-1", "snapshot-3", "snapshot-2"]
    asked.clear()
    list(plan.parts(at, end))
    assert [name for name in asked if name.startswith("snapshot-")] == ["snapshot-2"]


@pytest.mark.parametrize(
    ("keys", "options", "remedy"),
    [
        (("k",), {"merge-engine": "partial-update"}, "'lookup' or 'full-compaction'"),
        (("k",), {"merge-engine": "aggregation"}, "'lookup' or 'full-compaction'"),
        (("k",), {"merge-engine": "first-row"}, "to 'lookup'"),
    ],
)
def test_rows_that_are_no_changes_are_refused(make, keys, options, remedy):
    table = make(keys, options)
    with pytest.raises(UnsupportedError, match=remedy) as caught:
        StreamPlan.of(table.handle)
    assert caught.value.kind == "stream_without_changelog"


@pytest.mark.parametrize("option", ["scan.plan-sort-partition"])
def test_an_offset_inside_a_snapshot_that_is_cut_otherwise_is_refused(make, clock, option):
    table = make(keys=(), partitions=("k",))
    for k in (2, 1, 0):
        table.write([{"k": k, "v": 0}])
        clock.sleep_ms(1000)
    options = {"scan.mode": "from-snapshot-full", "scan.snapshot-id": "3"}
    plan = StreamPlan.of(table.handle, options)
    inside = plan.next(plan.initial(), ReadLimits(files=1))
    assert (inside.index, inside.phase) == (1, "full")
    again = StreamPlan.of(table.handle, {option: "true"})
    with pytest.raises(InvalidInputError, match="other parts now") as caught:
        again.next(inside)
    assert caught.value.kind == "stream_offset"


# ---- overwrites


@pytest.mark.parametrize(
    ("keys", "policy", "expected"),
    [
        (("k",), "skip", []),
        (("k",), "false", []),
        (("k",), "rows", [("-D", 0, 0), ("-D", 1, 1), ("-D", 2, 2), ("+I", 2, 9), ("+I", 3, 9)]),
        (("k",), "true", [("-D", 0, 0), ("-D", 1, 1), ("-D", 2, 2), ("+I", 2, 9), ("+I", 3, 9)]),
        (("k",), "diff", [("-D", 0, 0), ("-D", 1, 1), ("-U", 2, 2), ("+U", 2, 9), ("+I", 3, 9)]),
        ((), "skip", []),
        ((), "rows", [("+I", 2, 9), ("+I", 3, 9)]),
        ((), "diff", [("-D", 0, 0), ("-D", 1, 1), ("-D", 2, 2), ("+I", 2, 9), ("+I", 3, 9)]),
    ],
)
def test_an_overwrite_is_given_as_the_option_says(make, follow, keys, policy, expected):
    table = make(keys)
    table.write(THREE)
    _, at = follow(table)
    table.write([{"k": 2, "v": 9}, {"k": 3, "v": 9}], mode="overwrite")
    table.write([{"k": 5, "v": 5}])
    given, _ = follow(table, {"streaming-read-overwrite": policy}, start=at)
    assert [row for batch in given for row in batch] == [*expected, ("+I", 5, 5)]


def test_a_stream_stops_before_an_overwrite_and_gives_what_was_before_it(make, follow):
    table = make(keys=())
    table.write(THREE)
    _, start = follow(table)
    table.write([{"k": 4, "v": 4}])
    table.delete("k = 4")
    plan = StreamPlan.of(table.handle)
    at = plan.next(start)
    assert rows_of(plan.parts(start, at)) == [("+I", 4, 4)]
    with pytest.raises(UnsupportedError, match=r"snapshot 3 is an overwrite.*'diff'") as caught:
        plan.next(at)
    assert caught.value.kind == "stream_overwrite"


@pytest.mark.parametrize(("value", "rows"), [("true", [("+I", 9, 9)]), ("false", [])])
def test_append_tables_have_an_option_of_their_own(make, follow, value, rows):
    table = make(keys=())
    table.write(THREE)
    _, at = follow(table)
    table.write([{"k": 9, "v": 9}], mode="overwrite")
    table.write([{"k": 5, "v": 5}])
    given, _ = follow(table, {"streaming-read-append-overwrite": value}, start=at)
    assert [row for batch in given for row in batch] == [*rows, ("+I", 5, 5)]


@pytest.mark.parametrize("producer", ["lookup", "full-compaction"])
def test_rows_of_overwrites_are_refused_where_a_compaction_gives_them_again(make, producer):
    table = make(options={"changelog-producer": producer})
    with pytest.raises(InvalidInputError, match=f"'{producer}'.*'diff'") as caught:
        StreamPlan.of(table.handle, {"streaming-read-overwrite": "rows"})
    assert caught.value.kind == "stream_overwrite"


# ---- schema changes


def test_an_added_column_stops_a_running_stream_and_a_restart_reads_it(make, catalog, follow):
    table = make()
    table.write(THREE)
    running = StreamPlan.of(table.handle)
    start = running.latest()
    table.add_column("w", "INT")
    added = catalog.table("db.t")
    added.write([{"k": 9, "v": 9, "w": 1}])
    with pytest.raises(UnsupportedError, match=r"columns were added: 'w'\. Restart") as caught:
        running.next(start)
    assert caught.value.kind == "stream_schema_changed"
    restarted = StreamPlan.of(added.handle)
    end = restarted.next(start)
    assert rows_of(restarted.parts(start, end)) == [("+I", 9, 9, 1)]
    assert (start.schema, end.schema) == (0, 1)


def test_a_stream_may_keep_its_columns(make, catalog):
    table = make(options={"read.stream.schema-change": "keep-columns"})
    table.write(THREE)
    running = StreamPlan.of(table.handle)
    start = running.latest()
    table.add_column("w", "INT")
    catalog.table("db.t").write([{"k": 9, "v": 9, "w": 1}])
    end = running.next(start)
    assert rows_of(running.parts(start, end)) == [("+I", 9, 9)]
    assert end.schema == 0


@pytest.mark.parametrize(
    ("alter", "told"),
    [
        (lambda t: t.rename_column("v", "w"), "'v' was renamed to 'w'"),
        (lambda t: t.drop_column("v"), "'v' was dropped"),
        (lambda t: t.retype_column("v", "BIGINT"), "'v' of type INT became BIGINT"),
    ],
    ids=["rename", "drop", "retype"],
)
def test_any_other_change_of_columns_always_stops_a_stream(make, catalog, alter, told):
    table = make(options={"read.stream.schema-change": "keep-columns"})
    table.write(THREE)
    running = StreamPlan.of(table.handle)
    start = running.latest()
    alter(table)
    again = catalog.table("db.t")
    again.write([dict.fromkeys(again.schema.names, 9)])
    for plan in (running, StreamPlan.of(again.handle)):
        with pytest.raises(UnsupportedError, match=f"{told}.*'scan.snapshot-id' = '2'") as caught:
            plan.next(start)
        assert caught.value.kind == "stream_schema_changed"


def test_changed_options_do_not_stop_a_stream(make, catalog):
    table = make()
    table.write(THREE)
    running = StreamPlan.of(table.handle)
    start = running.latest()
    table.set_options({"target-file-size": "64 mb"})
    catalog.table("db.t").write([{"k": 9, "v": 9}])
    assert rows_of(running.parts(start, running.next(start))) == [("+I", 9, 9)]


# ---- lag and watermark


def test_lag_counts_what_is_to_come(make):
    table = make(keys=())
    for _ in range(40):
        table.write(THREE)
    plan = StreamPlan.of(table.handle, {"scan.snapshot-id": "1"})
    at = plan.initial()
    lag = plan.lag(at)
    assert (lag.snapshots, lag.rows) == (40, 120)
    assert lag.bytes > 0
    at = plan.next(at, ReadLimits(files=38))
    assert plan.lag(at).rows == 6
    assert plan.lag(plan.latest()) == type(lag)(0, 0, 0)
    assert plan.watermark(at) is None


def test_lag_counts_each_snapshot_once(make, monkeypatch):
    table = make(keys=())
    for _ in range(6):
        table.write(THREE)
    plan = StreamPlan.of(table.handle, {"scan.snapshot-id": "1"})
    at = plan.initial()
    counted = []
    sizes = Follower.sizes
    monkeypatch.setattr(
        Follower, "sizes", lambda self, s, o: counted.append(s.id) or sizes(self, s, o)
    )
    for left in (18, 15, 12, 9):
        assert plan.lag(at).rows == left
        at = plan.next(at, ReadLimits(files=1))
    assert counted == [1, 2, 3, 4, 5, 6]


def test_lag_is_counted_anew_after_a_rollback(make):
    table = make(keys=())
    for _ in range(4):
        table.write(THREE)
    plan = StreamPlan.of(table.handle, {"scan.snapshot-id": "1"})
    at = plan.initial()
    assert plan.lag(at).rows == 12
    table.rollback_to(2)
    table.write([{"k": 1, "v": 1}])
    assert (plan.lag(at).snapshots, plan.lag(at).rows) == (3, 7)
    table.write(THREE)
    assert (plan.lag(at).snapshots, plan.lag(at).rows) == (4, 10)


def test_a_key_that_moves_to_another_partition_is_one_part_of_a_batch(catalog):
    table = catalog.create_table(
        "db.t",
        {"p": "INT NOT NULL", "k": "INT NOT NULL", "v": "INT"},
        primary_keys=["k"],
        partition_keys=["p"],
        options={"bucket": "-1"},
    )
    table.write([{"p": 0, "k": 1, "v": 1}])
    plan = StreamPlan.of(table.handle)
    start = plan.latest()
    table.write([{"p": 1, "k": 1, "v": 2}])
    end = plan.next(start, ReadLimits(files=1))
    assert (end.snapshot, end.index) == (3, 0)
    assert sorted(rows_of(plan.parts(start, end))) == [("+I", 1, 1, 2), ("-D", 0, 1, 2)]
    predicate = bind(parse_filter("p = 1"), plan.fields)
    assert rows_of(plan.parts(start, end, predicate=predicate)) == [("+I", 1, 1, 2)]


@pytest.mark.parametrize("bound", [150, 200])
def test_a_stream_ends_before_the_first_later_watermark(make, follow, bound):
    table = make(keys=())
    for number, watermark in enumerate((100, 200, 300)):
        table.write([{"k": number, "v": 0}])
        path = table.paths.snapshot(number + 1)
        snapshot = replace(table.handle.snapshots.load(number + 1), watermark=watermark)
        table.fileio.replace(path, snapshot.to_json().encode())
    options = {"scan.bounded.watermark": str(bound), "scan.snapshot-id": "1"}
    given, at = follow(table, options)
    seen = [row[1] for batch in given for row in batch]
    assert seen == ([0] if bound == 150 else [0, 1])
    plan = StreamPlan.of(table.handle, options)
    assert plan.is_ended(at)
    assert plan.watermark(at) == 100 * len(seen)
    assert not plan.is_ended(plan.initial())
    begun = StreamPlan.of(table.handle, {"scan.watermark": "101"}).initial()
    assert (begun.snapshot, begun.phase) == (2, "delta")
    batch = table.with_options({"scan.watermark": "101"}).to_arrow()
    assert batch["k"].to_pylist() == [0, 1]
