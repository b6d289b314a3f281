"""The HTML of pages: whole, labelled, and nothing of a user's in it unescaped."""

import re
from collections import Counter
from html.parser import HTMLParser

import pytest
from unit.ui.conftest import EVIL

from tidelake.engine.health import Diagnosis, HealthFinding, RemedyCall
from tidelake.ui.model.warehouse_watch import Examination
from tidelake.ui.pages.rendering import SCRIPT, STYLE, PageWriter, Site, Sliced, asset

VOID = {"meta", "link", "input", "br"}
PATIENCE_S = 60


class Page(HTMLParser):
    """Elements of a page with their attributes, and where each is closed wrongly."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.wrong, self._open = [], [], []
        self.feed(text)
        self.close()
        self.wrong += self._open

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs), tuple(self._open)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs), tuple(self._open)))

    def handle_endtag(self, tag):
        if not self._open or self._open.pop() != tag:
            self.wrong.append(tag)

    def of(self, tag):
        return [attrs for name, attrs, _ in self.elements if name == tag]


@pytest.fixture
def writer():
    return PageWriter(Site("/lake", "1.0", allows_actions=True))


@pytest.fixture
def pages(orders, lake, watch, writer):
    lake.create_table("web.empty", orders.schema)
    lake.create_table("web.plain", orders.schema, comment=EVIL).write(orders.to_arrow())
    facts = {name: watch.facts(name) for name in watch.names()}
    found = {name: writer.table(one, watch.examine(one)) for name, one in facts.items()}
    found["pending"] = writer.table(facts["shop.orders"], None)
    found["warehouse"] = writer.warehouse(watch.overview(patience_s=PATIENCE_S))
    found["none"] = writer.warehouse(())
    one = facts["shop.orders"]
    finding = watch.examine(one).diagnosis.findings[0]
    found["action"] = writer.action(one, finding, "table.compact()", "csrf")
    found["report"] = writer.report(one, watch.examine(one), made_ms=0)
    found["login"] = writer.login(was_wrong=True)
    found["notice"] = writer.notice("Not found", EVIL)
    return found


def test_every_page_is_well_formed_and_labelled(pages):
    for name, text in pages.items():
        page = Page(text)
        assert page.wrong == [], name
        ids = Counter(a["id"] for _, a, _ in page.elements if "id" in a)
        assert [one for one, count in ids.items() if count > 1] == [], name
        assert len(page.of("h1")) == len(page.of("main")) == 1, name
        assert page.of("html") == [{"lang": "en"}]
        labels = [a["aria-labelledby"] for _, a, _ in page.elements if "aria-labelledby" in a]
        goals = [a["href"][1:] for a in page.of("a") if a.get("href", "").startswith("#")]
        assert set(labels) | set(goals) <= set(ids), name
        assert text.count("<table") == text.count("<caption"), name
        heads = page.of("th")
        assert all(a.get("scope") in ("row", "col") for a in heads), name


def test_what_users_write_is_escaped(pages):
    for name in ("shop.orders", "warehouse", "notice", "report"):
        assert "<script>alert" not in pages[name]
        assert "&lt;script&gt;alert" in pages[name]
    assert all(
        "alert(" not in a.get("src", "") for t in pages.values() for a in Page(t).of("script")
    )


def test_a_served_page_has_no_style_or_script_of_its_own(pages):
    for name, text in pages.items():
        page = Page(text)
        if name != "report":
            assert page.of("style") == []
            assert [a["src"] for a in page.of("script")] == [f"/static/{SCRIPT}"]
        assert not [a for _, a, _ in page.elements if "style" in a], name
        assert not [k for _, a, _ in page.elements for k in a if k.startswith("on")], name


def test_a_report_asks_for_nothing(pages):
    page = Page(pages["report"])
    asked = [a.get(k, "") for _, a, _ in page.elements for k in ("src", "href", "action")]
    assert not [one for one in asked if not one.startswith(("#", "data:")) and one]
    assert page.of("link") == [page.of("link")[0]]
    assert "http:" not in pages["report"].replace("http://www.w3.org/2000/svg", "")
    assert "http-equiv" in pages["report"]
    assert "data-poll" not in pages["report"]
    style, script = asset(STYLE).decode(), asset(SCRIPT).decode()
    assert style in pages["report"]
    assert script in pages["report"]
    assert not re.search(r"</(style|script)", style + script, re.IGNORECASE)


def test_a_page_says_what_is_there(pages):
    text = pages["shop.orders"]
    for words in ("mailer", "before", "COMPACT", "2026-11-21", "too many runs"):
        assert words in text, words
    assert "Nobody has written to this table yet." in pages["web.empty"]
    assert "data-pending" in pages["pending"]
    assert "The doctor is looking" in pages["pending"]
    assert "has no tables yet" in pages["none"]


def test_the_same_values_give_the_same_page(watch, orders, writer):
    facts = watch.facts("shop.orders")
    found = watch.examine(facts)
    again = PageWriter(writer.site).table(facts, found)
    assert writer.table(facts, found) == again


def test_actions_are_offered_where_they_are_allowed(watch, orders, writer):
    facts = watch.facts("shop.orders")
    found = watch.examine(facts)
    assert "Dry run …" in writer.table(facts, found)
    assert "Dry run …" not in PageWriter(Site("/lake", "1.0")).table(facts, found)
    assert "Dry run …" not in writer.report(facts, found, made_ms=0)


def test_a_finding_of_any_figures_is_shown(watch, orders, writer):
    facts = watch.facts("shop.orders")
    finding = HealthFinding(
        "old_tags", "advice", EVIL, {"tags": EVIL, "bytes": 2048, "n": 1.5}, (RemedyCall(EVIL),)
    )
    found = Examination((), 0, Diagnosis("shop.orders", 1, (finding,), {}))
    text = writer.table(facts, found)
    assert "2 KB" in text
    assert Page(text).wrong == []
    assert "<script>alert" not in text


def test_a_long_list_comes_in_parts(watch, orders, writer, monkeypatch):
    part = Sliced.of(51, 9, "buckets", size=25)
    assert (part.page, part.pages) == (3, 3)
    assert Sliced.of(0, 1, "buckets").pages == 1
    monkeypatch.setattr("tidelake.ui.pages.rendering.ROWS_SHOWN", 2)
    facts = watch.facts("shop.orders")
    text = writer.table(facts, None, pages={"snapshots": 2})
    assert "page 2 of 3" in text
    assert 'href="?buckets=1&amp;partitions=1&amp;snapshots=3#snapshots"' in text
    assert 'href="?buckets=2&amp;partitions=1&amp;snapshots=2#levels"' in text
