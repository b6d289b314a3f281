"""A sync of MariaDB that is stopped says where it goes on, and for how long it may wait."""

from __future__ import annotations

import os
import signal

import pytest

import tidelake
from tidelake.cli import cdc_command
from tidelake.cli.main import main


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_job_that_is_stopped_says_for_how_long_the_log_is_there(
    maria, tmp_path, capsys, monkeypatch, number, code
):
    maria.do("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    conf = maria.conf()
    monkeypatch.setenv("CDC_PASSWORD", conf["password"])
    words = ["mysql_sync_database", "--warehouse", str(tmp_path), "--database", "ods"]
    for key, value in {**conf, "password": "env:CDC_PASSWORD", "server-id": "4711"}.items():
        words += ["--mysql_conf", f"{key}={value}"]

    told = []

    def stop(_, done, __):
        told.append(done)
        os.kill(os.getpid(), number)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with monkeypatch.context() as patched:
            patched.setattr(cdc_command._EpochLines, "__call__", stop)
            assert main(["cdc", *words]) == code
    finally:
        signal.signal(signal.SIGINT, before)
    said = capsys.readouterr().err
    assert f"The next run goes on from {told[0].position}" in said
    assert "The server holds nothing for the job: it keeps its log" in said
    assert conf["password"] not in said
    maria.do("INSERT INTO t VALUES (2)")
    assert main(["cdc", *words, "--once"]) == 0
    rows = tidelake.open(tmp_path).table("ods.t").to_arrow(columns=["id"]).to_pylist()
    assert sorted(row["id"] for row in rows) == [1, 2]
