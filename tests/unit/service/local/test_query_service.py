"""The service of local processes: whole, killed, taken over, stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest
from unit.service.service_kit import asked_everywhere, is_ready, made_table
from waiting import until

import tidelake
from tidelake.errors import ConflictError, InvalidInputError, NotFoundError
from tidelake.service.address import liveness
from tidelake.service.local import supervisor as module
from tidelake.service.protocol.service_file import read_service_file
from tidelake.telemetry import has_ended, process_name

"""On a machine that does ten other things; `make proof` measures it alone."""


@pytest.fixture
def catalog(tmp_path):
    return tidelake.open(tmp_path / "warehouse")


def file_of(table):
    return read_service_file(table.fileio, table.paths.location)


def test_a_killed_executor_comes_back_with_the_files_it_had(catalog, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SPARE_AFTER_SECONDS", 0.0)
    table, other = made_table(catalog), made_table(catalog, "db.u", rows=10)
    with tidelake.serve(catalog.warehouse, ["db.t"], directory=tmp_path / "lookup") as service:
        service.wait_ready()
        assert service.is_running
        names = [process_name(pid) for pid in service.executor_pids.values()]
        assert asked_everywhere(service, table, range(100)).keys() == set(range(100))
        killed = service.executor_pids[0]
        os.kill(killed, signal.SIGKILL)
        until(
            lambda: (
                service.executor_pids.get(0) not in (None, killed)
                and is_ready(service.status(), ["db.t"])
            )
        )
        assert asked_everywhere(service, table, range(100)).keys() == set(range(100))
        assert service.restarts_count == 1
        built = [t.files_built for e in service.status().executors for t in e.tables]
        assert built[0] == 0
        service.add("db.u")
        service.wait_ready()
        assert asked_everywhere(service, other, range(10)).keys() == set(range(10))
        service.remove("db.u")
        assert service.tables == ["db.t"]
        with pytest.raises(ConflictError, match="is served by"):
            tidelake.serve(catalog.warehouse, ["db.t"])
        names += [process_name(pid) for pid in service.executor_pids.values()]
    assert all(map(has_ended, names))
    assert not service.is_running
    assert file_of(table) is None
    service.stop()


def test_an_executor_that_is_stopped_is_replaced(catalog, monkeypatch):
    monkeypatch.setattr(liveness, "HUNG_SECONDS", 1.0)
    monkeypatch.setattr(module, "SPARE_AFTER_SECONDS", 0.0)
    table = made_table(catalog)
    with tidelake.serve(catalog.warehouse, ["db.t"]) as service:
        service.wait_ready()
        pids = service.executor_pids
        os.kill(pids[1], signal.SIGSTOP)
        until(lambda: service.executor_pids.get(1) not in (None, pids[1]))
        service.wait_ready()
        assert asked_everywhere(service, table, range(100)).keys() == set(range(100))
        assert (service.executor_pids[0], service.restarts_count) == (pids[0], 1)
        assert not os.path.exists(f"/proc/{pids[1]}")


def test_what_a_killed_owner_leaves_ends_by_itself_and_is_taken_over(catalog, tmp_path):
    table = made_table(catalog)
    code = (
        "import sys, json, tidelake\n"
        "service = tidelake.serve(sys.argv[1], ['db.t'], parallelism=1, directory=sys.argv[2])\n"
        "service.wait_ready()\n"
        "print(json.dumps([service.address, service.executor_pids[0]]), flush=True)\n"
        "service.wait()\n"
    )
    arguments = [sys.executable, "-c", code, catalog.warehouse, str(tmp_path / "lookup")]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE) as owner:
        address, pid = json.loads(owner.stdout.readline())
        orphan = process_name(pid)
        owner.kill()
    assert file_of(table).address == address
    directory = tmp_path / "lookup"
    with tidelake.serve(catalog.warehouse, ["db.t"], parallelism=1, directory=directory) as service:
        service.wait_ready()
        assert file_of(table).address == service.address != address
        assert asked_everywhere(service, table, range(100)).keys() == set(range(100))
        until(lambda: has_ended(orphan), seconds=15)
    assert file_of(table) is None


def test_a_program_that_forgets_its_service_leaves_no_file(catalog, tmp_path):
    table = made_table(catalog, rows=10)
    code = (
        "import sys, tidelake\n"
        "service = tidelake.serve(sys.argv[1], ['db.t'], parallelism=1, directory=sys.argv[2])\n"
        "service.wait_ready()\n"
    )
    arguments = [sys.executable, "-c", code, catalog.warehouse, str(tmp_path / "lookup")]
    subprocess.run(arguments, check=True, timeout=60, capture_output=True)
    assert file_of(table) is None


@pytest.mark.parametrize(
    ("tables", "fields", "error", "said"),
    [
        ("db.t", {}, InvalidInputError, r"\['db.t'\]"),
        (["db.none"], {}, NotFoundError, "none"),
        (["db.t"], {"parallelism": 0}, InvalidInputError, "parallelism is 0"),
        (["db.t"], {"parallelism": "2"}, InvalidInputError, "parallelism"),
        (["db.t"], {"bind": "0.0.0.0"}, InvalidInputError, "insecure"),
        (["db.t"], {"tls_cert": "/none", "tls_key": "/none"}, InvalidInputError, "cannot be read"),
        (["db.t"], {"tokens": "/none"}, InvalidInputError, "cannot be read"),
        (["db.t"], {"tls_crt": "x"}, InvalidInputError, "tls_cert"),
        (["db.t"], {"limits": {"keyz": 1}}, InvalidInputError, "keys"),
        (["db.t"], {"limits": {"keys": 0}}, InvalidInputError, "above 0"),
    ],
)
def test_what_cannot_be_served_is_refused_before_anything_starts(
    catalog, tables, fields, error, said
):
    table = made_table(catalog, rows=0)
    with pytest.raises(error, match=said):
        tidelake.serve(catalog.warehouse, tables, **fields)
    assert file_of(table) is None


def test_a_branch_is_served_beside_its_table_and_followed(catalog, tmp_path):
    table = made_table(catalog, rows=10)
    table.branches.create("b", snapshot_id=1)
    name = "db.t$branch_b"
    branch = catalog.table(name)
    branch.write([{"id": 1, "v": "branch"}])
    with tidelake.serve(catalog.warehouse, ["db.t", name], directory=tmp_path / "l") as service:
        service.wait_ready()
        with (
            tidelake.lookup_client(catalog.warehouse, "db.t") as of_table,
            tidelake.lookup_client(catalog.warehouse, name) as of_branch,
        ):
            assert (of_table.get(1)["v"], of_branch.get(1)["v"]) == ("v1", "branch")
            branch.write([{"id": 77, "v": "later"}])
            until(lambda: of_branch.get(77) is not None)
            assert of_table.get(77) is None
