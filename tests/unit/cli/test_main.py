from __future__ import annotations

import sys
import warnings

from tidelake.cli.main import USAGE, main
from tidelake.spark.jvm import slower


def test_the_program_hides_warnings_of_libraries_and_shows_what_is_slower(monkeypatch, capsys):
    monkeypatch.setattr(sys, "warnoptions", [])
    monkeypatch.setattr(slower, "_SAID", set())
    with warnings.catch_warnings(record=True) as said:
        assert main(["no-such-command"]) == USAGE
        warnings.warn("of a library", RuntimeWarning, stacklevel=1)
        slower.warn_slower("Joins are shuffled", "9.9", "gone")
    assert [str(one.message).partition(",")[0] for one in said] == ["Joins are shuffled"]
    assert "no-such-command" in capsys.readouterr().err
