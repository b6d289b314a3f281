"""Java Paimon 1.3.1 for all tests of this directory; they are skipped where it cannot be had."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from interop.peer import JavaPeer
from interop.readers import AbsentError, JavaCore


@pytest.fixture(scope="session")
def java() -> JavaCore:
    """Java Paimon 1.3.1, made ready."""
    core = JavaCore()
    try:
        core.prepare()
    except AbsentError as reason:
        pytest.skip(f"Java Paimon 1.3.1 is absent: {reason}")
    return core


@pytest.fixture(scope="session")
def peers(java: JavaCore) -> Iterator[list[JavaPeer]]:
    """The processes of it that were started: one, and another one where it died."""
    started: list[JavaPeer] = []
    yield started
    for peer in started:
        peer.close()


@pytest.fixture(scope="module")
def peer(java: JavaCore, peers: list[JavaPeer]) -> JavaPeer:
    """A process of it that answers request after request: one for all modules of this worker."""
    if not peers or not peers[-1].is_running:
        peers.append(JavaPeer(java))
    return peers[-1]
