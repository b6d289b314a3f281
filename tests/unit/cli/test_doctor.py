"""``tidelake doctor storage``: what a store must do, line by line, and nothing left behind."""

from __future__ import annotations

from tidelake.cli.main import main


def doctor(s3, *more):
    words = ["doctor", "storage", "-w", "s3://lake/house", "--processes", "2", "--names", "30"]
    for key, value in s3.storage(**{"s3.retries": "1"}).items():
        words += ["--catalog-option", f"{key}={value}"]
    return main([*words, *more])


def test_a_sound_store_passes_every_line(s3, capsys):
    assert doctor(s3) == 0
    shown = capsys.readouterr().out
    assert "FAIL" not in shown
    assert "pass  race of processes: 2 processes for 30 names: each won once" in shown
    assert "pass  conditional writes: the second of two is refused" in shown
    assert "secret" not in shown
    assert (s3.listing(), s3.uploads) == ([], [])


def test_a_store_that_ignores_conditions_fails(s3, capsys):
    s3.conditions = "ignored"
    assert doctor(s3) == 1
    shown = capsys.readouterr().out
    assert "FAIL  conditional writes" in shown
    assert "not safe to write to" in shown
    assert s3.listing() == []


def test_a_bucket_that_is_missing_ends_it(s3, capsys):
    assert doctor(s3, "-w", "s3://none/house") == 1
    shown = capsys.readouterr().out
    assert "FAIL  answers" in shown
    assert "does not exist: create it" in shown
    assert shown.count("FAIL") == 1, "nothing was written, so nothing is to clean up"


def test_local_files_need_none(tmp_path, capsys):
    assert main(["doctor", "storage", "-w", str(tmp_path)]) == 1
    assert "need no examination" in capsys.readouterr().err
