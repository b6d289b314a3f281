"""A table as one HTML file: it can be sent, kept, and opened without a server."""

from __future__ import annotations

from importlib import metadata

from tidelake.engine.tables import Catalog
from tidelake.options.masked import masked_text
from tidelake.ui.model.warehouse_watch import WarehouseWatch
from tidelake.ui.pages.rendering import PageWriter, Site


def report(catalog: Catalog, name: str) -> str:
    """Write the report of a table.

    Parameters
    ----------
    name : str
        ``"database.table"``.

    Returns
    -------
    str
        HTML with its style and script; it asks for no other file.

    Raises
    ------
    NotFoundError
        There is no such table.
    UnsupportedError
        The library ``jinja2`` is not installed.
    """
    site = Site(masked_text(catalog.uri), metadata.version("tidelake"))
    writer = PageWriter(site)
    with WarehouseWatch(catalog) as watch:
        facts = watch.facts(name)
        examination = watch.examine(facts)
    return writer.report(facts, examination, made_ms=catalog.env.clock.now_ms())
