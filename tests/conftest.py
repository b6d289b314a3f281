"""What all tests share: the oracle's place, and self-checks switched on."""

from __future__ import annotations

import gc
import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from minutes import LONGEST_FIRST, Minutes
from sizes import FULL, SIZE, examples
from stuck import Stuck

from tidelake.metadata.log import chain, incarnation
from tidelake.options import promises
from tidelake.telemetry import invariants

settings.register_profile(
    "tidelake",
    max_examples=examples(100),
    # how long examples take says more of the machine's load than of the code
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    # a landing is decided by the same examples each time; developers' runs look for new ones
    derandomize="CI" in os.environ,
)
settings.load_profile("tidelake")


def pytest_configure(config):
    config.pluginmanager.register(Minutes(), "minutes")
    config.pluginmanager.register(Stuck(), "stuck")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # as a shell starts what runs in its background; tests interrupt themselves and programs
        signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.disable()  # a quarter of the collection of 15,000 tests looks for garbage, and none is there


def pytest_collection_finish():
    gc.enable()
    gc.freeze()  # what was collected stays to the end


def pytest_collection_modifyitems(config, items):
    seen = {}
    left_out = [item for item in items if not is_of_size(item, seen)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]
    turns = {name: turn for turn, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: turns.get(item.path.stem, len(turns)))


def is_of_size(item, seen):
    """Whether a test runs at this size, by its marks ``full`` and ``share``.

    ``share(n)`` keeps every so manieth combination of parameters. Where two grids are crossed these
    are in turns: each value of one still meets a share of the other. At full size, or where one
    combination is named on the command line, all run. What was seen of each grid so far says where
    in it an item stands: pytest's own indices count items, not values.
    """
    if SIZE is FULL or any("[" in word for word in item.config.args):
        return True
    share = item.get_closest_marker("share")
    if share is None:
        return item.get_closest_marker("full") is None
    place = 0
    for grid in item.iter_markers("parametrize"):
        names = (
            grid.args[0].replace(",", " ").split()
            if isinstance(grid.args[0], str)
            else grid.args[0]
        )
        values = tuple(id(item.callspec.params[name]) for name in names)
        order = seen.setdefault((item.path, item.originalname, *names), {})
        place += order.setdefault(values, len(order))
    return place % share.args[0] == 0


@pytest.fixture(scope="session")
def oracle_dir() -> Path:
    """The real Paimon's jar, programs and fixture tables, beside the checkout."""
    place = Path(os.environ.get("TIDELAKE_ORACLE", Path(__file__).parents[2] / "shared" / "oracle"))
    if not (place / "fixtures").is_dir():
        pytest.skip(f"the oracle of real Paimon is not beside this checkout ({place})")
    return place


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    """The Spark session of this process, on two cores."""
    import quick_spark  # where no test asks for it, nothing of Spark is loaded

    session = quick_spark.session(tmp_path_factory.mktemp("python"))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker(tmp_path_factory):
    """Kafka's broker, one for all processes of a run."""
    kafka_broker = pytest.importorskip("kafka_broker")
    root = tmp_path_factory.getbasetemp()
    shared = root.parent if "PYTEST_XDIST_WORKER" in os.environ else root
    try:
        running = kafka_broker.broker(shared)
        found = running.__enter__()
    except kafka_broker.AbsentError as reason:
        pytest.skip(f"no Kafka broker: {reason}")
    yield found
    running.__exit__(None, None, None)


@pytest.fixture
def s3():
    """An S3 of this test's own, with the empty bucket ``lake``; see ``servers/s3.py``."""
    from servers.s3 import S3Server

    with S3Server() as server:
        yield server


@pytest.fixture(autouse=True)
def _self_checks_on():
    with invariants(on=True):
        yield


@pytest.fixture(autouse=True)
def _nothing_was_said_or_seen_before():
    """What a process remembers by a table's name or place, which other tests have used, too."""
    for remembered in (chain._LOGGED, incarnation._KNOWN, incarnation._TOLD, promises._WARNED):
        remembered.value.clear()
