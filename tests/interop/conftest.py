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


@pytest.fixture(scope="module")
def peer(java: JavaCore) -> Iterator[JavaPeer]:
    """A process of it that answers request after request."""
    with JavaPeer(java) as started:
        yield started
