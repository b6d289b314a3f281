"""Statuses of a service, as its address server would give them."""

from __future__ import annotations

from tidelake.service.protocol import tidelake_query_v1_pb2 as pb

TABLE = "shop.orders"
AT_MS = 1_700_000_000_000


def report(
    keys=0, found=0, *, table=TABLE, snapshot=3, generation=1, ready=True, p99_us=3000, problem=""
):
    return pb.TableReport(
        table=table,
        ready=ready,
        version=pb.Version(generation=generation, snapshot=snapshot),
        buckets_count=4,
        requests=keys // 10,
        keys=keys,
        found=found,
        files=2,
        mapped_bytes=1 << 20,
        disk_bytes=3 << 20,
        p50_us=400,
        p99_us=p99_us,
        problem=problem,
    )


def executor(index, *reports, instance="a", ready=True):
    return pb.ExecutorStatus(
        index=index,
        address=f"127.0.0.1:500{index}",
        instance=f"{instance}{index}",
        ready=ready,
        heartbeat_age_ms=120,
        process=100 + index,
        tables=reports,
    )


def table(name=TABLE, *, snapshot=3, generation=1, problem=""):
    return pb.TableStatus(
        table=name,
        version=pb.Version(generation=generation, snapshot=snapshot),
        committed_ms=AT_MS - 1500,
        buckets_count=8,
        problem=problem,
    )


def status(executors, tables=None, *, count=2):
    return pb.ServiceStatus(
        service_id="s1",
        address="127.0.0.1:4000",
        started_ms=AT_MS - 61_000,
        executors_count=count,
        executors=executors,
        tables=[table()] if tables is None else tables,
    )
