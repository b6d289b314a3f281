"""The fourth act: two tables that nobody compacts, what the doctor says, and a month published.

A desk writes what it hears every half day and never compacts: January's flights by key, and the
weather as rows that are appended. The doctor says what that costs and what mends it; the
maintenance job shows what it would do, then does it, and the doctor looks again. February comes
into a branch, where an audit finds landings without a delay; they are taken out, and the branch
becomes the table in one step. No Spark: the desk is one process, as programs in the field are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import check
import data
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from answers import WrongAnswer
from data import Raw
from life import FourthAct, Prescription

from tidelake import Table
from tidelake.catalog import Catalog

FLIGHTS, WEATHER = "desk.flights", "desk.weather"
TABLES = "desk.*"
BRANCH = "february"
JANUARY, FEBRUARY, MARCH = (pd.Timestamp(2013, month, 1, tz="UTC") for month in (1, 2, 3))
KEEPS = {"snapshot.num-retained.min": 1, "snapshot.num-retained.max": 5}
AUDIT = "status = 'landed' AND arr_delay IS NULL"
BROKEN = 40
"""Landings of February that first come without a delay."""
TOLERANCE = 0.1
"""By which a figure may differ from what the doctor said it would be."""


def fourth_act(catalog: Catalog, raw: Raw, advance: Callable[[], None]) -> FourthAct:
    """Run it.

    Raises
    ------
    WrongAnswer
        A prediction was wrong, or a table does not hold what the raw data says.
    """
    tables, commits = _written(catalog, raw)
    advance()
    before = {name: table.doctor() for name, table in tables.items()}
    plans = catalog.maintain(TABLES, dry_run=True)
    done = catalog.maintain(TABLES, rounds=1)
    if done.errors:
        raise WrongAnswer(f"maintenance failed: {done.errors}")
    after = {name: table.doctor() for name, table in tables.items()}
    if any(found.is_healthy for found in before.values()):
        raise WrongAnswer(f"the doctor found nothing before the maintenance: {before}")
    if not all(found.is_healthy for found in after.values()):
        raise WrongAnswer(f"the doctor found something after the maintenance: {after}")
    prescriptions = [
        _prescription(name, finding, after[name].figures)
        for name, diagnosis in before.items()
        for finding in diagnosis.findings
    ]
    advance()
    flights, weather = tables.values()
    january = _compared(f"{FLIGHTS}, maintained", flights.to_arrow(), _state(raw, FEBRUARY))
    observed = _between(data.weather(raw), "time_hour", JANUARY, FEBRUARY)
    key = ("origin", "time_hour")
    seen = _compared(f"{WEATHER}, maintained", weather.to_arrow(), observed, key)
    checks = [january, seen, _published(flights, raw)]
    advance()
    return FourthAct(commits, prescriptions, [*map(str, plans)], [*map(str, done.tables)], checks)


def _written(catalog: Catalog, raw: Raw) -> tuple[Mapping[str, Table], int]:
    """The desk's tables after January, and how many commits each got."""
    flights = catalog.create_table(
        FLIGHTS,
        data.FLIGHTS,
        primary_keys=list(data.KEY),
        options={"bucket": 2, "write-only": True, **KEEPS},
    )
    weather = catalog.create_table(WEATHER, data.WEATHER, options=KEEPS)
    events, observed = data.events(raw), data.weather(raw)
    ends = pd.date_range(JANUARY, FEBRUARY, freq="12h")
    for begin, end in pairwise(ends):
        flights.write(_between(events, "updated_at", begin, end))
        weather.write(_between(observed, "time_hour", begin, end))
    return {FLIGHTS: flights, WEATHER: weather}, len(ends) - 1


def _prescription(name: str, finding: Any, after: Mapping[str, float]) -> Prescription:
    """What the doctor said of a table, and what it became; the first remedy is the best."""
    became = {}
    for figure, forecast in finding.predicted.items():
        said, is_now = forecast.after, after[figure]
        if abs(is_now - said) > max(1, TOLERANCE * said):
            raise WrongAnswer(f"{name}: {figure} became {is_now}, and {said} was predicted")
        became[figure] = (forecast.before, said, is_now)
    return Prescription(name, finding.kind, str(finding.remedies[0]), became)


def _published(flights: Table, raw: Raw) -> tuple[str, str]:
    """February: written into a branch, audited, mended there, and published in one step."""
    branches, before = flights.branches, flights.count()
    branches.create(BRANCH, snapshot_id=flights.latest_snapshot_id)
    branch = flights.branch(BRANCH)
    delivery = _between(data.events(raw), "updated_at", FEBRUARY, MARCH)
    landings = pc.indices_nonzero(pc.equal(delivery["status"], "landed"))[:BROKEN]
    broken = np.isin(np.arange(delivery.num_rows), landings.to_numpy())
    at = delivery.schema.get_field_index("arr_delay")
    delays = pc.if_else(pa.array(broken), None, delivery["arr_delay"])
    branch.write(delivery.set_column(at, data.FLIGHTS.field("arr_delay"), delays))
    faults = branch.count(where=AUDIT)
    if faults != BROKEN or flights.count() != before:
        raise WrongAnswer(f"the audit found {faults} faults, and {flights.count()} rows are public")
    branch.write(delivery.filter(pa.array(broken)))
    if left := branch.count(where=AUDIT):
        raise WrongAnswer(f"the audit found {left} faults after they were mended")
    branches.fast_forward(BRANCH)
    branches.delete(BRANCH)
    what, how = _compared(f"{FLIGHTS}, February published", flights.to_arrow(), _state(raw, MARCH))
    return what, f"{how}; an audit found {faults} broken rows in the branch, {left} at the end"


def _between(rows: pa.Table, column: str, begin: pd.Timestamp, end: pd.Timestamp) -> pa.Table:
    """Rows of a time from ``begin`` on and before ``end``."""
    first, last = (pa.scalar(time.to_pydatetime(), rows[column].type) for time in (begin, end))
    return rows.filter(pc.and_(pc.greater_equal(rows[column], first), pc.less(rows[column], last)))


def _state(raw: Raw, instant: pd.Timestamp) -> pa.Table:
    """Flights of which the desk had heard by then; it never saw the schedule."""
    known = check.state_at(raw, instant)
    return known.filter(pc.not_equal(known["status"], "scheduled"))


def _compared(
    what: str, found: pa.Table, expected: pa.Table, key: tuple[str, ...] = data.KEY
) -> tuple[str, str]:
    if wrong := check.difference(expected, found, key=key):
        raise WrongAnswer(f"{what}: {wrong}")
    return what, f"{found.num_rows:,} rows x {found.num_columns} columns equal"
