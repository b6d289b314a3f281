"""How Glue is reached, and what a lost answer leaves."""

from __future__ import annotations

from types import SimpleNamespace
from unittest import mock

import pyarrow as pa
import pytest
from moto import mock_aws
from servers.glue import REGION, glue, mock_aws_client

import tidelake
from tidelake import OutcomeUnknownError
from tidelake.catalog.hive._optional import load
from tidelake.catalog.hive.glue_register import GlueAccess

SCHEMA = pa.schema({"k": pa.int64(), "day": pa.string()})


def opened(place, options):
    return tidelake.open(place, catalog=options)


class Lossy:
    """A client that loses the answers to the calls named: ``sent``, or ``lost`` before."""

    def __init__(self, client):
        self.client = client
        self.lost: dict[str, str] = {}
        self.code, self.status = "InternalServiceException", 500

    def __getattr__(self, method):
        found = getattr(self.client, method)
        if method not in self.lost:
            return found

        def call(**arguments):
            if self.lost.pop(method) == "sent":
                found(**arguments)
            answer = {
                "Error": {"Code": self.code, "Message": "broken"},
                "ResponseMetadata": {"HTTPStatusCode": self.status},
            }
            raise load("botocore.exceptions").ClientError(answer, method)

        return call


@pytest.fixture
def lossy():
    with glue() as options:
        client = Lossy(mock_aws_client())
        with mock.patch.object(GlueAccess, "client", return_value=client):
            yield SimpleNamespace(client=client, options=options)


@pytest.fixture
def catalog(lossy, tmp_path):
    catalog = opened(tmp_path / "w", lossy.options)
    catalog.create_table("db.t", SCHEMA).write([{"k": 1, "day": "a"}])
    return catalog


def test_a_client_is_made_of_the_options():
    access = {
        "glue.region": "eu-west-2",
        "glue.endpoint": "http://glue.example:4566",
        "glue.profile-name": "lake",
        "glue.max-retries": 3,
        "glue.access-key-id": "AKIAEXAMPLE",
        "glue.secret-access-key": "the-secret",
        "glue.session-token": "the-token",
    }
    with mock.patch.object(load("boto3").session, "Session") as session:
        client = session.return_value.client
        client.return_value.get_paginator.return_value.paginate.return_value = []
        catalog = opened("/w", {"type": "glue", **access})
        catalog.metastore.register.drop_table("db", "t", with_directory=False)
    session.assert_called_once_with(
        profile_name="lake",
        region_name="eu-west-2",
        aws_access_key_id="AKIAEXAMPLE",
        aws_secret_access_key="the-secret",
        aws_session_token="the-token",
    )
    made = [(call.args, call.kwargs["endpoint_url"]) for call in client.call_args_list]
    assert made == [(("glue",), "http://glue.example:4566")] * 2
    retries = [call.kwargs["config"].retries for call in client.call_args_list]
    assert [found["max_attempts"] for found in retries] == [3, 0]
    assert {found["mode"] for found in retries} == {"standard"}


def test_the_client_of_changes_knows_the_exceptions_of_the_other(tmp_path):
    with mock_aws():
        catalog = opened(tmp_path / "w", {"type": "glue", "glue.region": REGION})
        register = catalog.metastore.register
        catalog.create_table("db.t", SCHEMA)
        assert not register.create_table(register.table("db", "t"))
        assert not register.drop_table("db", "u", with_directory=False)


@pytest.mark.parametrize(
    ("code", "status"), [("InternalServiceException", 500), ("OperationTimeoutException", 400)]
)
def test_a_change_that_the_service_broke_off_is_unknown(catalog, lossy, code, status):
    lossy.client.code, lossy.client.status = code, status
    lossy.client.lost["update_table"] = "sent"
    with pytest.raises(OutcomeUnknownError, match=r"unknown whether .* did this: change table"):
        catalog.alter_table("db.t", tidelake.AddColumn("w", "INT"))
    lossy.client.lost["create_table"] = "sent"
    assert catalog.create_table("db.u", SCHEMA).schema == SCHEMA


@pytest.mark.parametrize("method", ["create_table", "delete_table"])
def test_a_rename_with_a_lost_answer_is_finished(catalog, lossy, method):
    for how, old, new in (("sent", "t", "u"), ("sent", "u", "x")):
        lossy.client.lost[method] = how
        catalog.rename_table(f"db.{old}", f"db.{new}")
        assert catalog.list_tables("db") == [new]
        assert catalog.table(f"db.{new}").count() == 1


def test_a_rename_whose_entry_did_not_come_is_taken_back(catalog, lossy):
    lossy.client.lost["create_table"] = "lost"
    with pytest.raises(OutcomeUnknownError, match=r"create table 'db\.u'"):
        catalog.rename_table("db.t", "db.u")
    assert catalog.list_tables("db") == ["t"]
    assert catalog.table("db.t").count() == 1


def test_a_rename_whose_old_entry_stays_says_so(catalog, lossy):
    register = catalog.metastore.register

    def lose(_self, _database, name, *, with_directory):
        raise OutcomeUnknownError(f"lost {name}", kind="catalog_lost")

    with (
        mock.patch.object(type(register), "drop_table", lose),
        pytest.raises(OutcomeUnknownError, match="lost t"),
    ):
        catalog.rename_table("db.t", "db.u")
    assert catalog.table("db.u").count() == 1
