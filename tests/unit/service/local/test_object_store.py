"""A service of tables in an object store: processes, clients and commands, by URI and keys."""

from __future__ import annotations

import json

import pytest
from unit.service.service_kit import asked_everywhere, made_table

import tidelake
from tidelake.cli.main import main
from tidelake.errors import NotFoundError

FILE = "house/db.db/t/service/service-tidelake-query"
URI = "s3://lake/house"


def test_tables_of_a_store_are_served_asked_and_followed(s3, tmp_path, capsys):
    catalog = tidelake.open(URI, storage=s3.storage())
    table = made_table(catalog, rows=20)
    file = tmp_path / "lake.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in s3.storage().items()))
    where = ["-w", URI, "--catalog-file", str(file)]
    with pytest.raises(NotFoundError, match="No query service"):
        tidelake.lookup_client(catalog, "db.t")
    with tidelake.serve(
        URI, ["db.t"], storage=s3.storage(), parallelism=1, directory=tmp_path / "lookup"
    ) as service:
        service.wait_ready()
        puts = [r for r in s3.requests if r.method == "PUT" and r.target.endswith(FILE)]
        assert [r.condition for r in puts] == ["if-none-match=*"]
        assert asked_everywhere(service, table, range(20)).keys() == set(range(20))
        with tidelake.lookup_client(catalog, "db.t") as query:
            assert query.get(3) == table.get(3)
        assert main(["get", "db.t", "3", "--json", *where]) == 0
        shown = capsys.readouterr()
        assert json.loads(shown.out)["id"] == 3
        assert f"From the service at {service.address}" in shown.err
        assert main(["tail", "db.t", "--from", "full", "--timeout", "0", "-n", "5", *where]) == 0
        assert "+I" in capsys.readouterr().out
    assert s3.listing("house/db.db/t/service") == []
    assert main(["get", "db.t", "3", *where]) == 0
    assert "From the table's files" in capsys.readouterr().err
