"""A service of tables of a REST catalog: executors open it by the token that came by a pipe."""

from __future__ import annotations

import json

import pytest
from servers.rest_catalog import TOKEN, RestCatalogServer
from servers.s3 import KEY_ID
from unit.service.service_kit import asked_everywhere, made_table

import tidelake
from tidelake.cli.main import main
from tidelake.fileio.location import parse_location
from tidelake.fileio.opening import open_storage
from tidelake.telemetry import Env


class KnownKeys:
    """The server's own key, and those that it gives."""

    def __contains__(self, key_id):
        return key_id == KEY_ID or key_id.startswith("key-")


@pytest.fixture
def server(s3):
    s3.key_ids = KnownKeys()
    files = open_storage(parse_location("s3://lake/house"), s3.storage(), Env.system())
    made = RestCatalogServer("/house", vends=True, fileio=files, shown_as="s3://lake")
    made.defaults |= {"s3.endpoint": s3.url}
    with made as started:
        yield started


def test_tables_of_a_rest_catalog_are_served_asked_and_followed(server, tmp_path, capsys):
    catalog = tidelake.open(catalog=server.options())
    table = made_table(catalog, rows=20)
    file = tmp_path / "lake.properties"
    lines = {**server.options(), "metastore": "rest", "type": "paimon"}
    file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
    with tidelake.serve(
        None, ["db.t"], catalog=server.options(), parallelism=1, directory=tmp_path / "lookup"
    ) as service:
        service.wait_ready()
        assert asked_everywhere(service, table, range(20)).keys() == set(range(20))
        table.delete("id = 3")
        with tidelake.lookup_client(catalog, "db.t") as query:
            assert query.get(3, min_snapshot=table.latest_snapshot_id) is None
            assert query.get(4) == table.get(4)
        assert main(["get", "db.t", "4", "--json", "--catalog-file", str(file)]) == 0
        shown = capsys.readouterr()
        assert json.loads(shown.out)["id"] == 4
        assert f"From the service at {service.address}" in shown.err
        assert TOKEN not in repr(service) + str(service.status()) + shown.err
