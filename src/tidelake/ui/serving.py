"""Puts watch, pages and server together."""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Iterator
from functools import partial
from importlib import metadata

from tidelake.engine.tables import Catalog
from tidelake.options.masked import masked_text
from tidelake.ui.metrics.commit_metrics import CommitCollector
from tidelake.ui.metrics.families import text_of
from tidelake.ui.metrics.process_metrics import PATIENCE_S
from tidelake.ui.metrics.table_metrics import TableCollector
from tidelake.ui.model.warehouse_watch import WarehouseWatch
from tidelake.ui.pages.rendering import PageWriter, Site
from tidelake.ui.server.access import PageAccess, is_loopback
from tidelake.ui.server.http_server import PageServer
from tidelake.ui.server.site import WarehouseSite

TOKEN_BYTES = 24
HOST, PORT = "127.0.0.1", 8765


@contextlib.contextmanager
def page_server(
    catalog: Catalog,
    *,
    host: str = HOST,
    port: int = PORT,
    token: str | None = None,
    allow_actions: bool = False,
) -> Iterator[PageServer]:
    """Serve the pages of a warehouse, from a thread, until the block is left.

    Parameters
    ----------
    catalog : Catalog
        The warehouse.
    host, port : str, int
        Where to listen; port 0 takes a free one.
    token : str, optional
        What callers must know; needed beyond loopback.
    allow_actions : bool
        Whether pages offer what the doctor prescribes. Without a token one is made then, as
        ``server.token``: this machine may have other users.

    Raises
    ------
    InvalidInputError
        The address is not loopback and there is no token, or it is too short.
    StorageError
        The port is taken.
    UnsupportedError
        The library ``jinja2`` is not installed.
    """
    if allow_actions and token is None and is_loopback(host):
        token = secrets.token_urlsafe(TOKEN_BYTES)
    access = PageAccess(host, token)
    site = Site(
        masked_text(catalog.uri),
        metadata.version("tidelake"),
        allows_actions=allow_actions,
        has_login=access.has_token,
    )
    writer = PageWriter(site)
    with WarehouseWatch(catalog) as watch:
        tables = TableCollector(lambda: watch.overview(patience_s=PATIENCE_S), catalog.env.clock)
        commits = CommitCollector(catalog.env.commits)
        metrics = partial(text_of, tables, commits)
        answers = WarehouseSite(watch, writer, access, metrics=metrics)
        with PageServer(answers, host=host, port=port, token=token) as server:
            thread = threading.Thread(target=server.serve_forever, name="tidelake-ui", daemon=True)
            thread.start()
            try:
                yield server
            finally:
                server.shutdown()
                thread.join()
