"""Answers requests: which page, for whom, and what it may change.

The address of a page is its table's name; ``buckets``, ``partitions`` and ``snapshots`` in the
query choose the part of a long list.
"""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from urllib.parse import quote, unquote

from tidelake.engine.health import HealthFinding
from tidelake.errors import InvalidInputError, NotFoundError, TidelakeError
from tidelake.options.masked import masked_text
from tidelake.ui.model.table_facts import TableFacts
from tidelake.ui.model.warehouse_watch import WarehouseWatch
from tidelake.ui.pages.rendering import SCRIPT, STYLE, PageWriter, asset
from tidelake.ui.server.access import PageAccess
from tidelake.ui.server.exchange import (
    CSS,
    JS,
    PageRequest,
    PageResponse,
    if_changed,
    moved,
    page,
)
from tidelake.ui.server.remedies import carry_out, parsed_call, prescribed

PATIENCE_S = 1.0
"""How long the page of all tables waits for those that are being read."""
LISTS = ("buckets", "partitions", "snapshots")
PAGE_MAX = 1_000_000
ASSETS = {f"/static/{STYLE}": (STYLE, CSS), f"/static/{SCRIPT}": (SCRIPT, JS)}
Metrics = Callable[[], tuple[bytes, str]]
"""Gives the text of all metrics, and its content type."""


class WarehouseSite:
    """The pages of a warehouse. Thread-safe.

    Parameters
    ----------
    metrics : callable, optional
        Answers ``/metrics``; without it there is no such page.
    patience_s : float
        How long the page of all tables waits for those that are being read.
    """

    def __init__(
        self,
        watch: WarehouseWatch,
        writer: PageWriter,
        access: PageAccess,
        *,
        metrics: Metrics | None = None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._watch = watch
        self._writer = writer
        self._access = access
        self._metrics = metrics
        self._patience_s = patience_s

    def answer(self, request: PageRequest) -> PageResponse:
        """Answer a request; an error of a table becomes a page."""
        if not self._access.knows_host(request):
            return _refused("This server answers to the names of its own machine alone.")
        if request.path in ASSETS and request.method in ("GET", "HEAD"):
            name, content_type = ASSETS[request.path]
            return PageResponse(HTTPStatus.OK, asset(name), content_type)
        if request.path == "/login":
            return self._login(request)
        if not self._access.may_read(request):
            if request.method == "GET" and "authorization" not in request.headers:
                return page(self._writer.login(), HTTPStatus.UNAUTHORIZED)
            return _refused("The token is missing or wrong.", HTTPStatus.UNAUTHORIZED)
        try:
            return self._known(request)
        except NotFoundError as error:
            return self._notice("Not found", error.message, HTTPStatus.NOT_FOUND)
        except InvalidInputError as error:
            return self._notice("Not covered", error.message, HTTPStatus.BAD_REQUEST)
        except TidelakeError as error:
            return self._notice(
                "It cannot be read", error.message, HTTPStatus.INTERNAL_SERVER_ERROR
            )

    def _known(self, request: PageRequest) -> PageResponse:
        if request.method == "POST":
            return self._post(request)
        if request.method not in ("GET", "HEAD"):
            return _refused("Only GET and POST are answered.", HTTPStatus.METHOD_NOT_ALLOWED)
        if request.path == "/":
            tables = self._watch.overview(patience_s=self._patience_s)
            return if_changed(request, self._writer.warehouse(tables))
        if request.path == "/metrics" and self._metrics is not None:
            body, content_type = self._metrics()
            return PageResponse(HTTPStatus.OK, body, content_type)
        name, rest = _table_of(request.path)
        if name and not rest:
            return self._table(request, name)
        if name and rest == "action":
            return self._dry_run(request, name)
        words = f"There is no page {unquote(request.path)}."
        return self._notice("Not found", words, HTTPStatus.NOT_FOUND)

    def _table(self, request: PageRequest, name: str) -> PageResponse:
        facts = self._watch.facts(name)
        examination = self._watch.examination(facts)
        pages = {one: _page_number(request.query.get(one, "")) for one in LISTS}
        text = self._writer.table(facts, examination, pages=pages)
        if examination is None:  # after the page is made: both would share the cores
            self._watch.look([name])
        return if_changed(request, text)

    # ---- what changes something

    def _dry_run(self, request: PageRequest, name: str) -> PageResponse:
        if not self._writer.site.allows_actions:
            return _no_actions()
        self._watch.forget(name)
        facts = self._watch.facts(name)
        call = request.query.get("call", "")
        finding = self._prescribed(facts, request.query.get("finding", ""), call)
        if finding is None:
            return self._gone(name)
        parsed_call(call)
        return page(self._writer.action(facts, finding, call, self._access.csrf))

    def _prescribed(self, facts: TableFacts, kind: str, call: str) -> HealthFinding | None:
        # anew: what is due also depends on readers and on time, and not on snapshots alone
        found = self._watch.examine(facts, anew=True).diagnosis
        return None if found is None else prescribed(found.findings, kind, call)

    def _post(self, request: PageRequest) -> PageResponse:
        if request.path == "/logout" and self._access.has_token:
            return moved("/", **self._access.end_session(request))
        name, rest = _table_of(request.path)
        if not name or rest != "action":
            return _refused("There is nothing to post here.", HTTPStatus.NOT_FOUND)
        if not self._writer.site.allows_actions:
            return _no_actions()
        if not self._access.is_own_form(request):
            return _refused("The form is not one of this server's: open the page again.")
        kind, call = request.form.get("finding", ""), request.form.get("call", "")
        # what was shown is still prescribed, or nothing runs: the table may have changed since
        self._watch.forget(name)
        if self._prescribed(self._watch.facts(name), kind, call) is None:
            return self._gone(name)
        try:
            said = carry_out(self._watch.table(name), call)
        except TidelakeError as error:
            return self._notice(
                "It failed", error.message, HTTPStatus.CONFLICT, back=_address(name)
            )
        finally:
            self._watch.forget(name)
        text = self._writer.notice(call, masked_text(said), back=_address(name), is_error=False)
        return page(text)

    def _gone(self, name: str) -> PageResponse:
        words = f"The doctor no longer prescribes this call for {name}: look at the table again."
        return self._notice("It is no longer due", words, HTTPStatus.CONFLICT, back=_address(name))

    def _login(self, request: PageRequest) -> PageResponse:
        if not self._access.has_token:
            return moved("/")
        if request.method != "POST":
            return page(self._writer.login())
        if self._access.is_token(request.form.get("token", "")):
            return moved("/", **self._access.begin_session())
        return page(self._writer.login(was_wrong=True), HTTPStatus.UNAUTHORIZED)

    def _notice(
        self, title: str, words: str, status: HTTPStatus, *, back: str = "/"
    ) -> PageResponse:
        return page(self._writer.notice(title, masked_text(words), back=back), status)


def _refused(words: str, status: HTTPStatus = HTTPStatus.FORBIDDEN) -> PageResponse:
    return PageResponse(status, f"{words}\n".encode(), "text/plain; charset=utf-8")


def _no_actions() -> PageResponse:
    return _refused("This server only shows: start it with --allow-actions to change tables.")


def _address(name: str) -> str:
    return f"/table/{quote(name, safe='')}"


def _table_of(path: str) -> tuple[str, str]:
    """The table of a path, and what stands behind it; empty where there is none."""
    parts = path.split("/")
    if len(parts) in (3, 4) and parts[1] == "table" and parts[2]:
        return unquote(parts[2]), "" if len(parts) == 3 else parts[3]
    return "", ""


def _whole(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else -1


def _page_number(text: str) -> int:
    return min(max(_whole(text), 1), PAGE_MAX)
