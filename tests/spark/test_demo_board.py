"""The demo's second act, small: three streams of real flights fill one row a flight."""

from __future__ import annotations

import dataclasses
import importlib
import io
import itertools
import sys
import uuid
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest
from rich.console import Console

import tidelake.spark
from tidelake.spark import Lake

FLIGHTS = Path(__file__).parents[2] / "examples" / "flights"
MODULES = (
    "answers", "board", "charts", "check", "data", "demo", "feed", "life", "page", "published",
    "stream_job", "streams", "topics",
)  # fmt: skip
MONTHS, DAYS = (1, 4), (9, 10)
"""Of two quarters; on 9 January the flight left that the story is of."""


@pytest.fixture(scope="module")
def demo():
    """The demo's modules, gone again afterwards: their names are anybody's."""
    sys.path.insert(0, str(FLIGHTS))
    try:
        yield SimpleNamespace(**{name: importlib.import_module(name) for name in MODULES})
    finally:
        sys.path.remove(str(FLIGHTS))
        for name in MODULES:
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def raw(demo):
    flights = demo.published.flights
    some = flights[flights["month"].isin(MONTHS) & flights["day"].isin(DAYS)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo.published, "flights", some)
        loaded = demo.data.load()
    assert 3_000 < len(loaded.flights) < 5_000
    return loaded


@pytest.fixture(scope="module")
def acted(spark, demo, raw, broker, tmp_path_factory):
    """The whole act on Kafka: the lake, what was delivered and fed, and what the act says."""
    place = tmp_path_factory.mktemp("board")
    lake = tidelake.spark.attach(spark, place / "warehouse")
    parts = [part for part in demo.streams.deliveries(raw) if part]
    fed, steps = demo.board.Fed(), []
    topics = demo.topics.KafkaTopics(broker.servers, f"{uuid.uuid4()}-")
    demo.board.create_tables(lake)
    topics.create(lake)
    for part in parts:
        for delivery in part:
            demo.board.send(lake, topics, delivery, fed)
        demo.board.follow(lake, topics, place / "checkpoints")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo.board, "SCANS", 1)
        act = demo.board.second_act(lake, raw, fed, lambda: steps.append(1))
    assert len(steps) == 5, "the progress that demo.py shows has five steps"
    return SimpleNamespace(lake=lake, delivered=[d for p in parts for d in p], fed=fed, act=act)


def test_the_streams_are_late_and_the_board_is_right(demo, raw, acted):
    cancelled = raw.cancelled_at.notna().sum()
    estimated = {count.name: count.late for count in acted.act.counts}
    assert estimated["schedule"] == cancelled == acted.act.taken_back > 20
    assert estimated["departure"] > 700
    assert estimated["arrival"] == 0
    for count in acted.act.counts:
        rows = [d.rows.num_rows for d in acted.delivered if d.stream == count.name]
        assert count.records == sum(rows)
    board = acted.lake.catalog.table("air.board")
    log = board.history()
    assert acted.act.commits == log["commit_kind"].to_pylist().count("APPEND")
    marks = [mark for mark in log["watermark"].to_pylist() if mark is not None]
    assert marks == sorted(marks)
    newest = max(max(d.rows[stamp].to_pylist()) for d, stamp in stamps(demo, acted.delivered))
    assert 0 < marks[-1] < newest.timestamp() * 1000
    assert board.count() == len(raw.flights)
    assert board.count(where="state = 'cancelled'") == cancelled
    # found here once more, beside what the act compares itself
    found = board.to_arrow(columns=["dep_delay"])["dep_delay"].to_pandas()
    assert found.sum() == raw.flights["dep_delay"].sum()


def stamps(demo, delivered):
    """The deliveries, each with the column that stamps its records."""
    return [(d, demo.streams.STREAMS[d.stream][1]) for d in delivered]


def test_the_act_tells_what_it_compared(raw, acted):
    checks = dict(acted.act.checks)
    assert list(checks) == [
        "air.board", "the changelog of air.board, replayed",
        "air.delays", "the scan before and after", "the changelog of air.delays, replayed",
        "air.board, compacted", "air.delays, compacted",
    ]  # fmt: skip
    left = raw.flights[raw.flights["dep_time"].notna()]
    days = left.groupby(["carrier", "month", "day"]).ngroups
    assert checks["air.board"] == f"{len(raw.flights):,} rows x 18 columns equal"
    assert checks["air.delays"] == f"{days} rows x 10 columns equal"
    assert checks["air.delays, compacted"] == checks["air.delays"]
    assert checks["air.board, compacted"] == f"{checks['air.board']}, no change told"
    for name in ("air.board", "air.delays"):
        count = int(checks[f"the changelog of {name}, replayed"].split()[0].replace(",", ""))
        logged = acted.lake.catalog.table(name).history()["changelog_record_count"].to_pylist()
        assert count == sum(logged) > acted.lake.catalog.table(name).count()


def test_a_compaction_leaves_one_file_a_month_and_no_row_out(raw, acted):
    before, after = acted.act.scans
    assert before.files > after.files == len(MONTHS)
    assert before.rows >= after.rows == len(raw.flights)
    assert after.size_bytes < before.size_bytes


def test_the_months_are_those_of_the_raw_data(raw, acted):
    left = raw.flights[raw.flights["dep_delay"].notna()]
    expected = left.groupby(["carrier", "month"])["dep_delay"].agg(["size", "sum"])
    shown = acted.act.months.set_index(["carrier", "month"]).sort_index()
    assert shown.index.tolist() == expected.index.tolist()
    assert shown["flights"].tolist() == expected["size"].tolist()
    assert shown["late_minutes"].tolist() == expected["sum"].astype(int).tolist()
    names = dict(zip(raw.airlines["carrier"], raw.airlines["name"], strict=True))
    assert shown["name"].tolist() == [names[carrier] for carrier, _ in shown.index]


def test_the_story_is_that_of_the_flight_that_left_last(acted):
    kinds = [line[0] for line in acted.act.story]
    assert kinds[0] == "+I"
    assert set(kinds[1::2]) == {"-U"}
    assert set(kinds[2::2]) == {"+U"}
    assert acted.act.story[0][3:] == ("", "", "", "")  # scheduled, and no more
    assert acted.act.story[-1] == ("+U", "planned", "N384HA", "641", "1301", "1242", "1272")


def test_a_wrong_row_is_told(demo, raw, acted):
    """What the demo ends with if a table is not what the raw data says."""
    flights = raw.flights.copy()
    at = flights.index[flights["dep_delay"].notna()][7]
    flights.loc[at, "dep_delay"] += 1
    wrong = dataclasses.replace(raw, flights=flights)
    row = flights.loc[at]
    told = rf"air\.board: dep_delay is {row['dep_delay'] - 1:.0f}, not {row['dep_delay']:.0f}, in"
    with pytest.raises(demo.answers.WrongAnswer, match=rf"{told} .*'flight': {row['flight']}"):
        demo.board.second_act(acted.lake, wrong, acted.fed, lambda: None)


def test_without_a_broker_topics_are_tables_and_the_demo_says_so(
    spark, demo, acted, tmp_path, monkeypatch
):
    import kafka_broker

    def absent(_place):
        raise kafka_broker.AbsentError("there is no mvn on this machine")

    monkeypatch.setattr(kafka_broker, "broker", absent)
    said, lake = [], tidelake.spark.attach(spark, tmp_path / "warehouse")
    one = next(d for d in acted.delivered if d.stream == "arrival")
    with demo.topics.running(tmp_path, said.append) as topics:
        topics.create(lake)
        topics.open(lake)
        topics.send(lake, dataclasses.replace(one, rows=one.rows.slice(0, 5)))
        stream = topics.stream(lake, "arrival")
    assert stream.isStreaming
    assert stream.columns == demo.streams.topic_columns("arrival")
    assert lake.catalog.table("air.arrival_events").count() == 5
    assert topics.arguments == ()
    assert said == ["Topics are tables, without Kafka: there is no mvn on this machine."]


@pytest.mark.parametrize(("number", "when"), [(0, "before compaction"), (1, r"after it \(.* s\)")])
def test_a_wrong_answer_of_a_scan_is_told(demo, raw, acted, monkeypatch, number, when):
    """Both tables are right; one of the two scans leaves a row out."""
    whole, scans = Lake.table, itertools.count()

    def table(self, name, *, columns=None, **selection):
        frame = whole(self, name, columns=columns, **selection)
        if columns == ["carrier", "state", "dep_delay", "arr_delay"] and next(scans) == number:
            return frame.where("NOT dep_delay <=> 1301")
        return frame

    monkeypatch.setattr(demo.board, "SCANS", 1)
    monkeypatch.setattr(Lake, "table", table)
    told = f"the scan {when}: dep_delay is -8, not 1293"
    with pytest.raises(demo.answers.WrongAnswer, match=told):
        demo.board.second_act(acted.lake, raw, acted.fed, lambda: None)


def test_the_report_and_the_page_show_it(demo, raw, acted, tmp_path, monkeypatch):
    monkeypatch.setattr(demo.demo, "OUT", tmp_path)
    found = demo.life.Findings(**frames(raw), second=acted.act, checks=acted.act.checks)
    found.moments = [demo.life.Moment("now", "timestamp=now", 1, {"landed": 2, "gone": 1})]
    found.life = [demo.life.LifePoint(1, "APPEND", {0: 1}, 10, 1, 1, 10, 1, 0.5)]
    shown = io.StringIO()
    feed = demo.feed.Feed(seconds={1: 0.5}, rows=1)
    monkeypatch.setattr(demo.demo, "DESK", tmp_path / "desk.html")
    monkeypatch.setattr(demo.demo, "report", lambda _, name: f"<html>{name}")
    became = {"runs_count_max": (62, 1, 1)}
    prescription = demo.life.Prescription(
        "desk.flights", "too_many_runs", "table.compact()", became
    )
    found.fourth = demo.life.FourthAct(62, [prescription], ["planned"], ["done"], [])
    console = Console(file=shown, width=200)
    demo.demo.close(console, found, feed, 12.3, acted.lake.catalog)
    assert (tmp_path / "desk.html").read_text() == "<html>desk.flights"
    lines = [
        [cell.strip() for cell in line.split("│")[1:-1]] for line in shown.getvalue().split("\n")
    ]
    for count in acted.act.counts:
        row = [
            f"stream: {count.name}",
            f"{count.records:,}",
            f"{count.late:,} of them came too late",
        ]
        assert row in lines
    cancelled = raw.cancelled_at.notna().sum()
    assert ["cancelled", str(cancelled), "flights taken back from the sums"] in lines
    said = "1 by too_many_runs: table.compact()"
    assert ["desk.flights: runs_count_max", "62 -> 1", said] in lines
    after = next(line for line in lines if line and line[0].startswith("scan after it ("))
    assert after[2] == f"{len(MONTHS)} files, {len(raw.flights):,} rows"
    for what, how in acted.act.checks:
        assert [f"checked: {what}", "equal", how] in lines
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "{{" not in page
    assert "".join(f"<td>{cell}</td>" for cell in acted.act.story[-1]) in page
    assert f"<td>cancelled</td><td><b>{cancelled}</b></td>" in page


def frames(raw):
    """Those of the first act, which the page needs too: from pandas alone."""
    flights = raw.flights.assign(hour=raw.flights["hour"].astype(int))
    late = {"flights": ("dep_delay", "count"), "late_minutes": ("dep_delay", "sum")}
    by_carrier = flights.groupby("carrier").agg(
        landed=("arr_delay", "count"),
        late_minutes=("arr_delay", "sum"),
        scheduled=("flight", "count"),
        cancelled=("dep_time", lambda times: times.isna().sum()),
    )
    days = flights.groupby(["month", "day"])
    return {
        "hours": flights.groupby(["month", "day", "hour"], as_index=False).agg(**late),
        "cancelled": days["dep_time"]
        .agg(lambda t: t.isna().sum())
        .rename("cancelled")
        .reset_index(),
        "rain": days.size().rename("inches").reset_index(),
        "destinations": flights.groupby("dest", as_index=False).agg(**late),
        "carriers": by_carrier.reset_index().merge(raw.airlines, on="carrier"),
        "cross": pd.DataFrame(
            {
                "weather": ["fair"],
                "age": ["unknown"],
                "flights": [1],
                "late_minutes": [1],
                "seats": [1],
            }
        ),
        "airports": raw.airports,
    }
