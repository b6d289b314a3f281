"""``tidelake ui`` and ``tidelake report``."""

import os
import re
import signal
import subprocess
import sys
import urllib.request

import pyarrow as pa
import pytest

import tidelake
from tidelake.cli.arguments import read_arguments
from tidelake.cli.command_line.usage_error import UsageError
from tidelake.cli.main import main

PATIENCE_S = 120


@pytest.fixture
def table(tmp_path):
    made = tidelake.open(tmp_path / "lake").create_table("db.t", pa.schema({"n": pa.int64()}))
    made.write([{"n": 1}])
    return made


def test_a_report_is_written(table, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["report", "t", "-d", "db", "-w", "lake"]) == 0
    said = capsys.readouterr().out
    text = (tmp_path / "db.t.html").read_text(encoding="utf-8")
    assert said == f"db.t.html: {len(text.encode()):,} bytes\n"
    assert "<h1>db.t</h1>" in text
    assert main(["report", "db.t", "-w", "lake", "-o", "-"]) == 0
    assert "<h1>db.t</h1>" in capsys.readouterr().out


def test_what_cannot_be_reported_says_why(table, tmp_path, capsys):
    place = str(tmp_path / "lake")
    assert main(["report", "db.none", "-w", place]) == 1
    assert "error: Table 'none' does not exist" in capsys.readouterr().err
    assert main(["report", "db.t", "-w", place, "-o", str(tmp_path / "no" / "x.html")]) == 1
    assert "cannot be written" in capsys.readouterr().err


def test_the_address_is_read():
    def address(*words):
        given = read_arguments(["ui", "-w", "lake", *words], {})
        return given.host, given.port

    assert address() == ("127.0.0.1", 8765)
    assert address("--bind", "::1") == ("::1", 8765)
    assert address("--bind", "box:80") == ("box", 80)
    for wrong in ("box:x", "box:99999", "http://box", "box/x", ":80", ""):
        if wrong:
            with pytest.raises(UsageError, match="--bind takes a host"):
                address("--bind", wrong)


def test_beyond_loopback_a_token_is_needed(table, tmp_path, capsys):
    place = str(tmp_path / "lake")
    assert main(["ui", "-w", place, "--bind", "0.0.0.0:0"]) == 1
    assert "give a token, or listen on 127.0.0.1. (--token FILE)" in capsys.readouterr().err
    (tmp_path / "token").write_text("short\n")
    words = ["ui", "-w", place, "--bind", "0.0.0.0:0", "--token"]
    assert main([*words, str(tmp_path / "token")]) == 1
    assert "5 characters" in capsys.readouterr().err
    (tmp_path / "token").write_bytes(bytes(range(128, 160)))
    assert main([*words, str(tmp_path / "token")]) == 1
    assert "holds no token" in capsys.readouterr().err
    assert main([*words, str(tmp_path / "none")]) == 2
    assert "--token: there is no file" in capsys.readouterr().err


def test_pages_are_served_until_a_signal_comes(table, tmp_path):
    (tmp_path / "token").write_text("open-sesame-1234\n")
    words = ["-m", "tidelake", "ui", "-w", str(tmp_path / "lake"), "--bind", "127.0.0.1:0"]
    with subprocess.Popen(
        [sys.executable, *words, "--token", str(tmp_path / "token")],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as server:
        try:
            address = re.match(r"(http://127\.0\.0\.1:\d+/) shows ", server.stdout.readline())[1]
            request = urllib.request.Request(
                f"{address}table/db.t", headers={"Authorization": "Bearer open-sesame-1234"}
            )
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                assert b"<h1>db.t</h1>" in answer.read()
            server.send_signal(signal.SIGTERM)
            assert server.wait(PATIENCE_S) == 143
        finally:
            server.kill()
