"""The site: its menu has every page once, its images are there, roles of Sphinx are not shown."""

import importlib.util
import re
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
IMAGE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)")
GROUPS_MAX = 12
ENTRIES_MAX = 14


def menu():
    return yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]


def pages_of(entry):
    if isinstance(entry, str):
        return [entry]
    parts = entry if isinstance(entry, list) else entry.values()
    return [page for part in parts for page in pages_of(part)]


def test_the_menu_has_every_page_once_and_no_other():
    there = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert sorted(pages_of(menu())) == sorted(there - {"adr/0000-template.md"})


def test_the_menu_can_be_read_at_a_glance():
    """Few groups, and few entries in each; decisions are a list of their own."""
    lists = [menu()]
    for entries in lists:
        for entry in entries:
            if isinstance(entry, dict):
                lists += [part for part in entry.values() if isinstance(part, list)]
    assert len(menu()) <= GROUPS_MAX
    long = [found for found in lists if len(found) > ENTRIES_MAX and "adr/index.md" not in found]
    assert long == []


def test_every_image_of_a_page_is_there():
    pages = [ROOT / "README.md", *DOCS.rglob("*.md")]
    shown = [(p, image) for p in pages for image in IMAGE.findall(p.read_text(encoding="utf-8"))]
    assert shown
    assert [f"{p}: {image}" for p, image in shown if not (p.parent / image).is_file()] == []


def test_roles_of_sphinx_become_code():
    spec = importlib.util.spec_from_file_location("docs_roles", ROOT / "scripts" / "docs_roles.py")
    roles = sys.modules["docs_roles"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(roles)
    text = "See :meth:`~tidelake.table.Table.get`, :class:`tidelake.Table` and `get`."
    assert roles.without_roles(text) == "See `get`, `tidelake.Table` and `get`."
