"""Java Paimon for all tests of this directory; they are skipped where it cannot be had.

Its version is 1.3.1; at full size the tests that talk to a process meet 2.1 too.
``TIDELAKE_JAVA=core-2.1`` chooses, by the names of ``readers.py``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from sizes import FULL, SIZE

from interop.peer import JavaPeer
from interop.readers import AbsentError, JavaCore, JavaCore21

_ALL = {core.name: core for core in (JavaCore, JavaCore21)}
_MET = list(_ALL) if SIZE is FULL else [JavaCore.name]
TALKED_TO = os.environ.get("TIDELAKE_JAVA", ",".join(_MET)).split(",")


def _ready(core: JavaCore) -> JavaCore:
    try:
        core.prepare()
    except AbsentError as reason:
        pytest.skip(f"{core.title} is absent: {reason}")
    return core


@pytest.fixture(scope="session")
def java() -> JavaCore:
    """Java Paimon 1.3.1, made ready."""
    return _ready(JavaCore())


@pytest.fixture(scope="session")
def peers() -> Iterator[list[JavaPeer]]:
    """The processes that were started: one of a version, and another one where it died."""
    started: list[JavaPeer] = []
    yield started
    for peer in started:
        peer.close()


@pytest.fixture(scope="module", params=TALKED_TO)
def peer(request: pytest.FixtureRequest, peers: list[JavaPeer]) -> JavaPeer:
    """A process that answers request after request: one for all modules of this worker."""
    running = [one for one in peers if one.is_running and one.version == request.param]
    if not running:
        running = [JavaPeer(_ready(_ALL[request.param]()))]
        peers.extend(running)
    return running[0]
