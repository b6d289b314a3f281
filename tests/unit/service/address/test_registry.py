"""Which instance of an executor counts, who is silent, and when clients are told something new."""

from __future__ import annotations

import pytest

from tidelake.service.address.refusal import Refusal
from tidelake.service.address.registry import SILENT_MS, Registry
from tidelake.service.protocol import tidelake_query_v1_pb2 as pb


class Clock:
    now = 0.0

    def __call__(self):
        return self.now / 1000


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def registry(clock):
    return Registry(2, 100, clock)


def report(index=0, instance="a", *, attempt=0, ready=True, snapshot=1, **fields):
    table = pb.TableReport(
        table="db.t", ready=ready, version=pb.Version(generation=1, snapshot=snapshot)
    )
    return pb.ExecutorReport(
        index=index,
        instance=instance,
        attempt=attempt,
        address=f"{instance}:1",
        tables=[table],
        **fields,
    )


def instances(registry):
    return [r.report.instance for r in registry.live()]


def test_a_report_registers_and_the_epoch_goes_up_only_with_news(registry):
    assert registry.register(report())
    first = registry.epoch
    assert first == 101
    assert registry.register(report(snapshot=2))
    assert registry.epoch == first
    registry.register(report(ready=False))
    assert registry.epoch == first + 1


def test_a_later_attempt_supersedes_and_the_older_one_stays_out(registry):
    registry.register(report(instance="a", attempt=0))
    assert registry.register(report(instance="b", attempt=1))
    assert not registry.register(report(instance="a", attempt=0))
    assert instances(registry) == ["b"]
    assert not registry.register(report(instance="c", attempt=0))
    assert instances(registry) == ["b"]


def test_of_equal_attempts_the_one_that_came_later_counts(registry):
    registry.register(report(instance="a"))
    assert registry.register(report(instance="b"))
    assert not registry.register(report(instance="a"))
    assert instances(registry) == ["b"]


def test_a_silent_executor_is_left_out_and_an_older_attempt_may_follow_it(registry, clock):
    registry.register(report(instance="a", attempt=5))
    before = registry.epoch
    clock.now = SILENT_MS
    assert instances(registry) == []
    assert registry.epoch == before + 1
    assert registry.register(report(instance="b", attempt=0))
    assert instances(registry) == ["b"]


def test_who_leaves_or_has_ended_is_forgotten(registry):
    registry.register(report(0, "a"))
    registry.register(report(1, "b"))
    registry.register(report(0, "a", leaving=True))
    assert instances(registry) == ["b"]
    registry.forget(1)
    assert instances(registry) == []
    assert not registry.register(report(1, "b"))


def test_an_index_of_another_service_is_refused(registry):
    with pytest.raises(Refusal, match="another service"):
        registry.register(report(index=2))


def test_the_oldest_snapshot_that_an_executor_reads_is_held(registry):
    registry.register(report(0, "a", snapshot=7))
    registry.register(report(1, "b", snapshot=5))
    assert registry.oldest_snapshot("db.t", 1, 9) == 5
    assert registry.oldest_snapshot("db.t", 2, 9) == 0
    assert registry.oldest_snapshot("db.other", 1, 9) == 0
