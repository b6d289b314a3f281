"""Each verb of ``tidelake cdc`` says what it does, its arguments and an example."""

from __future__ import annotations

import pytest

from tidelake.cdc.command.argument import SYNC_COMMANDS
from tidelake.cli.cdc_help import VERBS
from tidelake.cli.declaration import CDC_VERBS
from tidelake.cli.main import main


@pytest.mark.parametrize("verb", CDC_VERBS)
@pytest.mark.parametrize("words", [["--help"], ["job.toml", "-h"]])
def test_a_verb_has_help(verb, words, capsys):
    assert main(["cdc", verb, *words]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"usage: tidelake cdc {verb} ")
    assert CDC_VERBS[verb].split(":")[0] in " ".join(said.split())
    assert f"example:\n  tidelake cdc {verb} " in said
    assert "job.toml | COMMAND --name value ..." in said
    assert max(map(len, said.splitlines())) <= 100


def test_every_verb_has_help():
    assert VERBS.keys() == CDC_VERBS.keys()


def test_the_command_and_its_commands_have_help(capsys):
    assert main(["cdc", "--help"]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in (*SYNC_COMMANDS, *CDC_VERBS))
    assert main(["cdc", "mysql_sync_table", "--help"]) == 0
    assert "--mysql_conf" in capsys.readouterr().out
