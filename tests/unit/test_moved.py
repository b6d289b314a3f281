"""Old paths of public modules."""

import importlib
import sys

import pytest

from tidelake._moved import MOVED, install
from tidelake.table import RollbackResult, TagInfo


@pytest.mark.parametrize("old", [name for name in sorted(MOVED) if "spark" not in name])
def test_an_old_path_works_and_warns_with_the_new_one(old, monkeypatch):
    monkeypatch.delitem(sys.modules, old, raising=False)
    with pytest.warns(DeprecationWarning, match=f"{old} has moved: .* {MOVED[old]}"):
        importlib.import_module(old)


def test_the_classes_of_an_old_path_are_those_of_the_new_one(monkeypatch):
    for old in ("tidelake.table.versions", "tidelake.table.rollback"):
        monkeypatch.delitem(sys.modules, old, raising=False)
    with pytest.warns(DeprecationWarning, match="has moved"):
        versions = importlib.import_module("tidelake.table.versions")
    with pytest.warns(DeprecationWarning, match="has moved"):
        rollback = importlib.import_module("tidelake.table.rollback")
    assert versions.TagInfo is TagInfo
    assert rollback.RollbackResult is RollbackResult


def test_the_finder_is_installed_once():
    before = list(sys.meta_path)
    install()
    assert sys.meta_path == before


def test_a_module_that_never_was_is_not_found():
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("tidelake.table.versionz")
