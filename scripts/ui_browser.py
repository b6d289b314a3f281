"""Looks at pages with a real browser: run by scripts/ui_check.py in an environment of its own.

Usage: python scripts/ui_browser.py ADDRESS REPORT CHROMIUM PICTURES NUDGE TOKEN

ADDRESS is that of `tidelake ui --allow-actions`, REPORT the file of `tidelake report`, PICTURES a
directory, or nothing. Creating the file NUDGE makes the caller write to shop.stock.
"""

from __future__ import annotations

import json
import re
import sys
from importlib import resources
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

ADDRESS, REPORT, CHROMIUM, PICTURES, NUDGE, TOKEN = sys.argv[1:7]
KNOWN = {"Authorization": f"Bearer {TOKEN}"}
AXE = resources.files("axe_playwright_python").joinpath("axe.min.js")
WAIT_MS = 60_000
WIDE, NARROW = {"width": 1_280, "height": 860}, {"width": 360, "height": 780}
ORDERS = "/table/shop.orders"
ACTION = f"{ORDERS}/action?finding=too_many_runs&call=table.compact()"
PAGES = {
    "all tables": "/",
    "a table with a key": ORDERS,
    "an append table": "/table/web.clicks",
    "an empty table": "/table/web.sessions",
    "a dry run": ACTION,
    "a page that is not there": "/nothing",
}
FOUND = {"violations": 0, "checks": 0}


def check(said: str, holds: object, more: object = "") -> None:
    """Count, and say what does not hold."""
    FOUND["checks"] += 1
    FOUND["violations"] += 0 if holds else 1
    if not holds:
        print(f"FAILED {said}: {more}", flush=True)


def settled(page: Page, address: str) -> None:
    """Open a page, and wait until the doctor has looked."""
    page.goto(address)
    page.wait_for_selector("body:not([data-pending])", timeout=WAIT_MS)


def is_accessible(page: Page, said: str) -> None:
    """Run axe-core over all that is shown."""
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    kinds = [(one["id"], [node["html"][:120] for node in one["nodes"][:3]]) for one in found]
    check(f"{said}: axe-core finds nothing", not kinds, kinds)
    check(
        f"{said}: fits the width",
        page.evaluate("document.documentElement.scrollWidth <= innerWidth"),
    )


def every_page(browser: Browser) -> None:
    """All pages, light and dark, wide and narrow."""
    for scheme in ("light", "dark"):
        for size in (WIDE, NARROW):
            context = browser.new_context(
                viewport=size, color_scheme=scheme, extra_http_headers=KNOWN
            )
            page = context.new_page()
            said: list[str] = []
            page.on("console", lambda message, said=said: said.append(message.text))
            page.on("pageerror", lambda error, said=said: said.append(str(error)))
            for name, path in PAGES.items():
                settled(page, ADDRESS + path)
                is_accessible(page, f"{name}, {scheme}, {size['width']} px")
            said = [one for one in said if "404" not in one]
            check(f"{scheme}, {size['width']} px: the console is silent", not said, said)
            context.close()


def login(page: Page) -> None:
    """The token is asked for once."""
    page.goto(ADDRESS + ORDERS)
    check("nothing is shown without the token", "shop.orders" not in page.content())
    is_accessible(page, "the login")
    page.get_by_label("The token").fill("wrong-wrong-wrong-wrong")
    page.keyboard.press("Enter")
    page.get_by_role("alert").wait_for(timeout=WAIT_MS)
    is_accessible(page, "the login after a wrong token")
    page.get_by_label("The token").fill(TOKEN)
    page.keyboard.press("Enter")
    page.wait_for_selector("#tables", timeout=WAIT_MS)


def keyboard(page: Page) -> None:
    """The skip link, the filter, the theme, and a table by keys alone."""
    settled(page, ADDRESS)
    page.keyboard.press("Tab")
    check(
        "the first stop skips to the content",
        page.evaluate("document.activeElement.className") == "skip",
    )
    page.keyboard.press("Enter")
    page.keyboard.press("/")
    check("/ goes to the filter", page.evaluate("document.activeElement.id") == "find")
    page.keyboard.type("CLICK")
    shown = page.locator("#tables tbody tr:visible")
    check("the filter leaves one table", shown.count() == 1, shown.count())
    page.keyboard.press("Escape")
    check("Escape shows all", shown.count() == 5, shown.count())
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/table/**")
    page.locator("#theme").press("Enter")
    check("the theme turns", page.evaluate("document.documentElement.dataset.theme") == "dark")
    page.reload()
    check("the theme stays", page.evaluate("document.documentElement.dataset.theme") == "dark")


def live(page: Page) -> None:
    """A commit shows without a reload; focus and scrolling stay."""
    settled(page, f"{ADDRESS}/table/shop.stock")
    rows = page.locator("#snapshots-rows tbody th")
    before = int(rows.first.inner_text())
    page.locator("#columns-rows").focus()
    page.evaluate("window.stays = true")
    Path(NUDGE).touch()
    newer = rows.filter(has_text=re.compile(f"^{before + 1}$"))
    newer.wait_for(timeout=WAIT_MS)
    check("a commit shows without a reload", page.evaluate("window.stays === true"))
    focused = page.evaluate("document.activeElement.id")
    check("focus stays where it was", focused == "columns-rows", focused)


def report(browser: Browser) -> None:
    """A report opens from the disk and asks for nothing."""
    context = browser.new_context(viewport=NARROW, color_scheme="dark")
    page = context.new_page()
    asked: list[str] = []
    said: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: said.append(message.text))
    page.goto(Path(REPORT).as_uri())
    page.wait_for_selector("time .ago", timeout=WAIT_MS)
    others = [one for one in asked[1:] if not one.startswith("data:")]
    check("a report asks for nothing", not others, others)
    check("a report's console is silent", not said, said)
    is_accessible(page, "a report")
    context.close()


def action(page: Page) -> None:
    """A dry run, then the call; then the finding is gone."""
    settled(page, ADDRESS + ORDERS)
    page.locator("#health a.button").first.click()
    page.get_by_role("button", name="Run it").click()
    page.wait_for_selector(".fine, .problem", timeout=WAIT_MS)
    check("the call is made", page.locator(".fine").count() == 1, page.locator("main").inner_text())
    is_accessible(page, "what a call gave")
    settled(page, ADDRESS + ORDERS)
    words = page.locator("#health").inner_text()
    check("the finding is gone", "too many runs" not in words, words)


def pictures(browser: Browser) -> None:
    """Those of the documentation."""
    for name, path, scheme, size in (
        ("ui-tables", "/", "light", {"width": 1_200, "height": 640}),
        ("ui-table-dark", ORDERS, "dark", {"width": 1_200, "height": 1_150}),
        ("ui-narrow", ORDERS, "light", {"width": 360, "height": 720}),
    ):
        context = browser.new_context(viewport=size, color_scheme=scheme, extra_http_headers=KNOWN)
        page = context.new_page()
        settled(page, ADDRESS + path)
        if name == "ui-table-dark":
            page.evaluate("document.getElementById('levels').scrollIntoView({behavior: 'instant'})")
            page.evaluate("scrollBy({top: -80, behavior: 'instant'})")
        page.screenshot(path=str(Path(PICTURES) / f"{name}.png"))
        context.close()


def main() -> int:
    """Run all checks."""
    with sync_playwright() as playwright:
        # containers run as root and have a small /dev/shm
        options = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        if PICTURES:
            pictures(browser)
        every_page(browser)
        page = browser.new_context(viewport=WIDE).new_page()
        login(page)
        keyboard(page)
        live(page)
        report(browser)
        action(page)
        browser.close()
    print(json.dumps({"check": "ui", **FOUND}))
    return 1 if FOUND["violations"] else 0


if __name__ == "__main__":
    sys.exit(main())
