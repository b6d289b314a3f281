"""Catalogs: databases and tables by name."""

from tidelake.catalog.filesystem import Catalog, open_catalog

__all__ = ["Catalog", "open_catalog"]
