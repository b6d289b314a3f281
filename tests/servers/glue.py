"""AWS Glue in this process: ``moto`` answers what boto3 sends."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from moto import mock_aws

from tidelake.catalog.hive.glue_register import GlueAccess

REGION = "eu-west-1"
_make_client = GlueAccess.client


@functools.cache
def _client() -> Any:
    """One client for all tests: reading its service's description takes half a second."""
    return mock_aws_client()


def mock_aws_client() -> Any:
    """Another client, of the same account."""
    access = GlueAccess(REGION, None, None, None, 0, skips_archive=True)
    return _make_client(access, access.session(), retries=False)


@contextmanager
def glue() -> Iterator[dict[str, str]]:
    """An empty catalog until the block ends; gives the options of a catalog."""
    with mock_aws(), mock.patch.object(GlueAccess, "client", return_value=_client()):
        yield {
            "type": "glue",
            "glue.region": REGION,
            "glue.access-key-id": "AKIAEXAMPLE",
            "glue.secret-access-key": "the-secret",
        }
