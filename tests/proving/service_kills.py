"""A query service is killed, piece by piece, while 64 clients ask; no answer is wrong or too old.

One run has a program that serves a table, on local processes or on Spark, and this process, which
writes to the table, asks by 64 clients and kills: an executor; all executors at once; the program
with the address server (on Spark: the driver), which is started again and takes other ports. Or it
stops an executor (SIGSTOP), which runs on and hangs. Between the kills the table is compacted,
expired, evolved, rescaled, dropped and made anew, and the directory of lookup files is removed.

Every commit changes key 0, and its values grow. What a snapshot holds is noted by the writer, so
afterwards each answer is compared with the snapshot that the client says it came from, and with
what the same client was shown before. A client's error is a violation, unless the table did not
exist meanwhile.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tidelake
from tidelake.errors import TidelakeError

TABLE = "db.served"
CLIENTS = 64
EXECUTORS = 2
KEYS = 400
MISSING = 40
"""Keys above those, which no snapshot holds."""
BATCH_MAX = 20
DEADLINE_S = 30.0
BACK_S = 1.0
"""A program that came back so shortly before a client's deadline came too late for it."""
PAUSE_S = (0.05, 0.25)
"""Of a client between two calls: 64 of them and the service share two cores."""
LIFE = 1_000_000
"""Values of a table that was made anew begin at its next multiple."""
READY = "ready"
KILLED = ("executor", "pair", "stop", "server")
DONE_TO_TABLE = ("compact", "expire", "evolve", "rescale", "remake")
CLEAN = "clean"
"""The directory of lookup files is removed under the executors, which share it."""
FIRST = (
    "rescale",
    "pair",
    "clean",
    "stop",
    "remake",
    "server",
    "executor",
    "evolve",
    "compact",
    "expire",
)
"""A short run has the first of these; a long one all of them, then others."""
SETTLE_S = 60.0

State = dict[int, int]


# ---- the program that serves


def program(work: Path, on: str) -> None:
    """Serve until killed; a file tells the executors' processes."""
    with contextlib.ExitStack() as stack:
        service = stack.enter_context(_served(work, on, stack))
        service.wait_ready(SETTLE_S)
        told: dict[int, int] = {}
        said = False
        while True:
            if (pids := service.executor_pids) != told:
                told = pids
                file = work / "pids.new"
                file.write_text(json.dumps(pids))
                file.replace(work / "pids")
            if not said:
                sys.stdout.write(f"{READY}\n")
                sys.stdout.flush()
                said = True
            time.sleep(0.05)


def _served(work: Path, on: str, stack: contextlib.ExitStack) -> Any:
    given: dict[str, Any] = {
        "parallelism": EXECUTORS,
        "directory": work / "lookup",
        "limits": {"calls": 2 * CLIENTS},
    }
    if on == "local":
        return tidelake.serve(work / "warehouse", [TABLE], **given)
    # without Spark nothing of it is loaded
    quick_spark = importlib.import_module("quick_spark")
    on_spark = importlib.import_module("tidelake.spark")
    os.environ["PYSPARK_PYTHON"] = quick_spark.python(work)
    master = f"local[{EXECUTORS + 1}]"
    spark = on_spark.session("service kills", master=master, conf=quick_spark.CONF)
    stack.callback(spark.stop)
    return on_spark.attach(spark, work / "warehouse", spark_sql=False).serve([TABLE], **given)


@dataclass
class Program:
    """The program, and how it is started, killed and started again."""

    work: Path
    on: str
    child: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it, and wait until all executors answer."""
        (self.work / "pids").unlink(missing_ok=True)
        with (self.work / "log").open("a") as log:
            self.child = subprocess.Popen(
                [sys.executable, "-m", "proving.service_kills", str(self.work), self.on],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        assert self.child.stdout is not None
        said = self.child.stdout.readline().strip()
        assert said == READY, (self.work / "log").read_text()[-3000:]

    def executor(self, index: int, *, other_than: int = 0) -> int:
        """The process of an executor, when it is another one than before."""
        until = time.monotonic() + SETTLE_S
        while time.monotonic() < until:
            with contextlib.suppress(OSError, ValueError):
                pids = json.loads((self.work / "pids").read_text())
                if pids.get(str(index), other_than) != other_than:
                    return int(pids[str(index)])
            time.sleep(0.02)
        raise AssertionError(f"executor {index} did not come back: {self.log()}")

    def kill(self) -> None:
        """Kill the program alone; its executors see that themselves."""
        assert self.child is not None
        os.kill(self.child.pid, signal.SIGKILL)
        self.child.wait(SETTLE_S)
        assert self.child.stdout is not None
        self.child.stdout.close()

    def end(self) -> None:
        """Kill whatever is left of it."""
        if self.child is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.child.pid, signal.SIGKILL)
            self.child.wait(SETTLE_S)

    def log(self) -> str:
        """What it said last."""
        return (self.work / "log").read_text()[-3000:]


# ---- what the table holds


@dataclass
class History:
    """The rows of each snapshot, by (life, snapshot), as the writer knows them."""

    catalog: tidelake.Catalog
    rng: random.Random
    life: int = 0
    count: int = 0
    columns: int = 0
    states: dict[tuple[int, int], State] = field(default_factory=dict)
    gone: list[tuple[float, float]] = field(default_factory=list)
    down: list[tuple[float, float]] = field(default_factory=list)
    """When the program that serves was killed, and when another one was ready.

    On Spark alone, whose start may take longer than a client's deadline.
    """

    @property
    def _table(self) -> Any:
        return self.catalog.table(TABLE)

    def create(self) -> None:
        """Make the table, and its first snapshot."""
        self.life += 1
        self.catalog.create_table(
            TABLE,
            {"k": "INT", "v": "BIGINT", "w": "INT"},
            primary_keys=["k"],
            options={"bucket": 4, "snapshot.num-retained.min": 1},
        )
        self.states[self.life, 0] = {}
        self._note({}, lambda: self._written(range(0, KEYS, 2), {}))

    def write(self) -> None:
        """Upsert some keys and delete others, in one commit."""
        rows = self._newest()
        keys = self.rng.sample(range(1, KEYS), 30)
        deleted = set(keys[:10])
        self._note(rows, lambda: self._written(keys, rows, deleted=deleted))

    def compact(self) -> None:
        """Compact it whole."""
        self._note(self._newest(), lambda: (self._table.compact(full=True), self._newest())[1])

    def expire(self) -> None:
        """Keep the newest snapshots only."""
        self._table.maintenance.expire_snapshots(retain_max=2, retain_min=1)

    def evolve(self) -> None:
        """Add a column, and widen one."""
        self.columns += 1
        changes: list[Any] = [tidelake.AddColumn(f"c{self.columns}", "STRING")]
        if self.columns == 1:
            changes.append(tidelake.UpdateColumnType("w", "BIGINT"))
        self.catalog.alter_table(TABLE, changes)

    def rescale(self) -> None:
        """Give it another number of buckets."""
        count = self.rng.choice([1, 2, 3, 5, 8])
        rows = self._newest()
        self._note(rows, lambda: (self._table.rescale_bucket(count), rows)[1])

    def remake(self) -> None:
        """Drop it, and make it anew with other rows."""
        began = time.monotonic()
        self.catalog.drop_table(TABLE)
        self.columns = 0
        self.create()
        self.gone.append((began, time.monotonic()))

    def _newest(self) -> State:
        return self.states[max(self.states)]

    def _written(self, keys: Sequence[int], rows: State, *, deleted: Collection[int] = ()) -> State:
        """Write values of this commit to keys, and to key 0; the rows after that."""
        self.count += 1
        value, after, batch = self.life * LIFE + self.count, dict(rows), []
        for key in {0, *keys}:
            is_gone = key in deleted
            row = {"k": key, "v": value, "w": key, "_row_kind": "-D" if is_gone else "+I"}
            batch.append(row | {f"c{number + 1}": None for number in range(self.columns)})
            if is_gone:
                after.pop(key, None)
            else:
                after[key] = value
        self._table.write(batch)
        return after

    def _note(self, rows: State, work: Callable[[], State]) -> None:
        """Do it, and note what the snapshots that it made hold."""
        before = self.catalog.table(TABLE).latest_snapshot_id or 0
        after = work()
        for snapshot in range(before + 1, (self._table.latest_snapshot_id or 0) + 1):
            self.states[self.life, snapshot] = after


# ---- clients


@dataclass(frozen=True, slots=True)
class Answer:
    """What one call gave."""

    began: float
    ended: float
    keys: tuple[int, ...]
    rows: tuple[dict[str, Any] | None, ...]
    snapshot: int
    error: str = ""


def _ask(warehouse: Path, seed: int, stop: threading.Event, into: list[Answer]) -> None:
    """One client, until told to stop."""
    rng = random.Random(seed)
    with tidelake.lookup_client(warehouse, TABLE, deadline_seconds=DEADLINE_S) as client:
        while not stop.is_set():
            size = rng.choice((1, 1, BATCH_MAX))
            keys = tuple(rng.randrange(KEYS + MISSING) for _ in range(size))
            began = time.monotonic()
            try:
                if size == 1:
                    rows = (client.get(keys[0], columns=["k", "v"]),)
                else:
                    keys = (0, *keys)
                    rows = tuple(client.get_many(list(keys), columns=["k", "v"]))
                found = Answer(began, time.monotonic(), keys, rows, client.snapshot_id or 0)
            except TidelakeError as error:
                said = f"{error.kind}: {error.message}"
                found = Answer(began, time.monotonic(), keys, (), 0, said)
            into.append(found)
            stop.wait(rng.uniform(*PAUSE_S))


@contextlib.contextmanager
def _clients(warehouse: Path, seed: int) -> Iterator[list[list[Answer]]]:
    stop = threading.Event()
    told: list[list[Answer]] = [[] for _ in range(CLIENTS)]
    threads = [
        threading.Thread(target=_ask, args=(warehouse, seed * CLIENTS + i, stop, told[i]))
        for i in range(CLIENTS)
    ]
    for thread in threads:
        thread.start()
    try:
        yield told
    finally:
        stop.set()
        for thread in threads:
            thread.join(2 * DEADLINE_S)


def violations(history: History, answers: Sequence[Answer]) -> list[str]:
    """What is wrong with the answers of one client."""
    wrong: list[str] = []
    last = (0, 0)
    for answer in answers:
        if answer.error:
            if not (_while_gone(history, answer) or _while_down(history, answer)):
                wrong.append(f"an error after {answer.ended - answer.began:.1f} s: {answer.error}")
            continue
        lives = {row["v"] // LIFE for row in answer.rows if row is not None}
        at = _place(history, answer, lives, last)
        if at is None:
            wrong.append(f"{answer} is of no snapshot from {last} on")
            continue
        last = at
    return wrong


def _while_down(history: History, answer: Answer) -> bool:
    """Whether nothing served when the deadline came: starting Spark may take longer than that."""
    waited = answer.ended - answer.began >= DEADLINE_S
    return waited and any(killed < answer.ended < ready + BACK_S for killed, ready in history.down)


def _while_gone(history: History, answer: Answer) -> bool:
    return any(answer.began < end and begin < answer.ended for begin, end in history.gone)


def _place(
    history: History, answer: Answer, lives: set[int], last: tuple[int, int]
) -> tuple[int, int] | None:
    """The snapshot that holds exactly this answer, and is not older than the last one."""
    candidates = lives or set(range(last[0], history.life + 1))
    for life in sorted(candidates):
        at = (life, answer.snapshot)
        state = history.states.get(at)
        if state is None or at < last or len(lives) > 1:
            continue
        expected = [{"k": k, "v": state[k]} if k in state else None for k in answer.keys]
        if list(answer.rows) == expected:
            return at
    return None


# ---- a run


def steps_of(count: int, seed: int = 1) -> list[str]:
    """Steps of a run.

    Examples
    --------
    >>> steps_of(2)
    ['rescale', 'pair']
    """
    rng = random.Random(seed)
    drawn = [rng.choice((*KILLED, *DONE_TO_TABLE, CLEAN)) for _ in range(len(FIRST), count)]
    return [*FIRST[:count], *drawn]


def service_kills(
    work: Path, steps: Sequence[str], *, on: str = "local", seed: int = 1, settled_s: float = 0.0
) -> dict[str, Any]:
    """Run it.

    Parameters
    ----------
    work : Path
        A directory of its own.
    steps : sequence of str
        Of :data:`KILLED`, :data:`DONE_TO_TABLE` and :data:`CLEAN`, in their order; rows are written
        all the time.
    on : str
        ``"local"`` or ``"spark"``.
    seed : int
        Of keys and pauses.
    settled_s : float
        Seconds before each kill. An executor that is killed again within ten seconds is started
        again after a wait, so that seconds of recovery say little without.

    Returns
    -------
    dict
        Figures: calls, errors while the table was gone, seconds from a kill of the program until
        another serves, seconds that clients waited.

    Raises
    ------
    AssertionError
        An answer was wrong or older than one before, or a client failed.
    """
    work.mkdir(parents=True, exist_ok=True)
    history = History(tidelake.open(work / "warehouse"), random.Random(seed))
    history.create()
    served = Program(work, on)
    recovery: dict[str, list[float]] = {name: [] for name in KILLED}
    killed: list[tuple[str, float]] = []
    try:
        served.start()
        with _clients(work / "warehouse", seed) as told:
            for step in steps:
                for _ in range(2):
                    history.write()
                    time.sleep(0.1)
                if step in KILLED:
                    time.sleep(settled_s)
                    killed.append((step, time.monotonic()))
                    _kill(served, step, history)
                    if step == "server" and on == "spark":
                        history.down.append((killed[-1][1], time.monotonic()))
                elif step == CLEAN:
                    shutil.rmtree(work / "lookup", ignore_errors=True)
                else:
                    getattr(history, step)()
            history.write()
            _await_newest(told, history)
    finally:
        served.end()
    wrong = [text for answers in told for text in violations(history, answers)]
    assert not wrong, f"{len(wrong)} violations: {wrong[:5]} {served.log()}"
    calls = [answer for answers in told for answer in answers]
    for what, at in killed:
        # calls that were under way, or began while the service was down
        touched = [a for a in calls if a.began < at + 0.5 and a.ended > at and not a.error]
        seconds = max((a.ended - at for a in touched), default=0.0)
        recovery[what].append(round(seconds, 2))
    return {
        "on": on,
        "clients": CLIENTS,
        "calls": len(calls),
        "snapshots": len(history.states),
        "steps": dict(Counter(steps)),
        "errors_while_gone": sum(bool(a.error) and _while_gone(history, a) for a in calls),
        "errors_while_down": sum(bool(a.error) and _while_down(history, a) for a in calls),
        "start_s": [round(ready - at, 1) for at, ready in history.down],
        "recovery_s": {name: times for name, times in recovery.items() if times},
        "violations": 0,
    }


def _kill(served: Program, what: str, history: History) -> None:
    if what == "server":
        served.kill()
        served.start()
        return
    drawn = history.rng.randrange(EXECUTORS)
    if what == "pair":
        for process in [served.executor(index) for index in range(EXECUTORS)]:
            os.kill(process, signal.SIGKILL)
        return
    process = served.executor(drawn)
    if what == "executor":
        os.kill(process, signal.SIGKILL)
        return
    os.kill(process, signal.SIGSTOP)
    history.write()  # which it does not learn of
    served.executor(drawn, other_than=process)


def _await_newest(told: list[list[Answer]], history: History) -> None:
    """Wait until every client was answered from the newest snapshot."""
    newest, until = max(history.states)[1], time.monotonic() + SETTLE_S
    while time.monotonic() < until:
        if all(answers and answers[-1].snapshot >= newest for answers in told):
            return
        time.sleep(0.05)
    raise AssertionError("not every client was answered again")


if __name__ == "__main__":
    program(Path(sys.argv[1]), sys.argv[2])
