"""``tidelake doctor storage`` against real stores; what it prints of MinIO stands in the docs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from stores.chosen import BY_MAKE_STORES

from tidelake.cli.main import main

pytestmark = BY_MAKE_STORES

PAGE = Path(__file__).parents[2] / "docs" / "storage.md"
COMMAND = "tidelake doctor storage --warehouse s3://lake/house"


def in_the_page():
    block = re.search(rf"```text\n\$ {COMMAND}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert block is not None, "the page shows what the command prints"
    return block.group(1)


def without_figures(text):
    """What differs from run to run is taken out: the examination's own directory, and times."""
    text = re.sub(r"\.tidelake-doctor-[0-9a-f-]{36}", ".tidelake-doctor-", text)
    return re.sub(r"\d+ m?s\b", "n ms", text)


def test_the_page_shows_what_is_printed_of_minio(minio, monkeypatch, capsys):
    monkeypatch.setenv("AWS_ENDPOINT_URL", minio.options["s3.endpoint"])
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", minio.options["s3.access-key"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", minio.options["s3.secret-key"])
    assert main(COMMAND.split()[1:]) == 0
    assert without_figures(capsys.readouterr().out) == without_figures(in_the_page())


def test_azure_passes_every_line(azurite, capsys):
    words = ["doctor", "storage", "-w", azurite.fresh(), "--processes", "3"]
    for key, value in azurite.storage().items():
        words += ["--catalog-option", f"{key}={value}"]
    assert main(words) == 0
    found = [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()]
    shown = [line.partition(":")[0] for line in in_the_page().splitlines()]
    assert found == shown


@pytest.mark.parametrize("wrong", ["s3://none/house", "s3://lake/house"])
def test_what_is_wrong_with_minio_is_one_line(minio, wrong, capsys):
    """A bucket that is missing, and a key that is not the store's."""
    words = ["doctor", "storage", "-w", wrong]
    given = minio.storage() if "none" in wrong else minio.storage(**{"secret-key": "wrong"})
    for key, value in given.items():
        words += ["--catalog-option", f"{key}={value}"]
    assert main(words) == 1
    shown = capsys.readouterr().out
    (failed,) = [line for line in shown.splitlines() if line.startswith("FAIL")]
    expected = "does not exist: create it" if "none" in wrong else "SignatureDoesNotMatch"
    assert expected in failed
