"""Rows by key while files vanish and executors hang, and by every call there is."""

from __future__ import annotations

import asyncio

import pytest
from proving.hung_executors import run_hung_executors
from proving.key_doors import TYPES, VALUES, check_doors, kernel_doors, some_values, table_of
from proving.vanishing import run_vanishing
from sizes import SIZE
from unit.service.service_kit import running

import tidelake

pytest.importorskip("grpc")


@pytest.mark.parametrize("seed", range(SIZE.lookup_vanishing))
def test_answers_are_right_whatever_is_removed_of_the_lookup_files(seed):
    assert run_vanishing(seed) > 0


@pytest.mark.parametrize("seed", range(4 * SIZE.lookup_vanishing))
def test_executors_that_hang_are_found_and_no_others(seed):
    run_hung_executors(seed)


@pytest.mark.parametrize("data_type", TYPES[:: SIZE.key_types_step])
def test_every_call_takes_the_keys_that_a_write_takes(tmp_path, data_type):
    catalog = tidelake.open(tmp_path / "w")
    table = table_of(catalog, data_type)
    values = VALUES if SIZE.key_types_step == 1 else some_values(data_type, SIZE.key_values)
    with (
        running(catalog, directory=tmp_path / "lookup", count=1) as service,
        table.local_query(directory=tmp_path / "lookup") as query,
        tidelake.lookup_client(catalog, "db.t") as client,
        asyncio.Runner() as runner,
    ):
        other = tidelake.lookup_client_async(catalog, "db.t")

        def only(rows):
            (row,) = rows
            return row

        doors = kernel_doors(table, query) | {
            "client.get": lambda key: client.get({"k": key}),
            "client.get_many": lambda key: only(client.get_many([{"k": key}])),
            "async client.get": lambda key: runner.run(other.get({"k": key})),
            "async client.get_many": lambda key: only(runner.run(other.get_many([{"k": key}]))),
        }

        def refresh(written):
            query.refresh()
            service.wait_ready_at(written)

        check_doors(table, values, doors, refresh=refresh)
        runner.run(other.close())
