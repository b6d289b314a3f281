"""W5 by TLS: rows by key from the query service by frames, against gRPC and against plain frames.

One caller that gets one key at a time, and 64 coroutines that do. CPU seconds of client and servers
together. ``openssl`` makes the certificate. Run by `python bench/run.py service-tls [--size full]`.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from kernel import Line, scratch
from measure import paired, tree_cpu_seconds
from service import CALLERS, SIZES, TABLE, drawn

import tidelake

GRPC, PLAIN = "gRPC by TLS", "plain frames"


def certificate(place: Path) -> dict[str, str]:
    """A certificate for this machine, signed by itself."""
    made = {"tls_cert": str(place / "own.pem"), "tls_key": str(place / "own.key")}
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    names = ("-subj", "/CN=own", "-addext", "subjectAltName=IP:127.0.0.1")
    out = ("-out", made["tls_cert"], "-keyout", made["tls_key"])
    subprocess.run(["openssl", "req", "-x509", *curve, *names, *out], check=True)
    return made


def by_grpc(query: Any) -> None:
    """Let a client forget where executors take frames."""
    executors = query._client.session.view.executors
    for index, connection in executors.items():
        executors[index] = replace(connection, frames=None)


def lines(size_name: str) -> Iterator[Line]:
    """A lone caller, and many."""
    size = SIZES[size_name]
    lone, many = drawn(size, size.lone_gets), drawn(size, size.single_gets)
    rows = {"k": [2 * n for n in range(size.rows)], "w": [f"{n:056d}" for n in range(size.rows)]}
    with scratch() as place, ExitStack() as open_services:
        secure = certificate(place)
        for name, options in (("secure", secure), ("plain", {})):
            table = tidelake.open(place / name).create_table(
                TABLE,
                pa.schema({"k": pa.int64(), "w": pa.string()}),
                primary_keys=["k"],
                options={"bucket": 4},
            )
            table.write(rows)
            served = tidelake.serve(place / name, [TABLE], parallelism=1, **options)
            open_services.enter_context(served)
        ca = secure["tls_cert"]

        def one_caller(name: str, *, frames: bool = True) -> Callable[[], object]:
            tls = ca if name == "secure" else None
            query = tidelake.lookup_client(place / name, TABLE, tls=tls)
            open_services.enter_context(query)
            assert query.get(4)["w"] == f"{2:056d}"
            if not frames:
                by_grpc(query)
            return lambda: [query.get(key) for key in lone]

        def callers(name: str, *, frames: bool = True) -> Callable[[], object]:
            async def act() -> None:
                tls = ca if name == "secure" else None
                async with tidelake.lookup_client_async(place / name, TABLE, tls=tls) as query:
                    assert (await query.get(4))["w"] == f"{2:056d}"
                    if not frames:
                        by_grpc(query)

                    async def caller(number: int) -> None:
                        for key in many[number::CALLERS]:
                            await query.get(key)

                    await asyncio.gather(*map(caller, range(CALLERS)))

            return lambda: asyncio.run(act())

        for what, made in (("one caller", one_caller), (f"{CALLERS} coroutines", callers)):
            ours = made("secure")
            for against, other, target in (
                (GRPC, made("secure", frames=False), "<= 1"),
                (PLAIN, made("plain"), ""),
            ):
                found = paired(ours, other, rounds=size.rounds, cpu=tree_cpu_seconds)
                what_by = f"service by TLS, {what} of single keys"
                yield Line("W5", what_by, against, found, target)
