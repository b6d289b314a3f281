"""Catalogs: databases and tables by name.

A catalog finds, creates, renames and drops tables of one warehouse. What a table holds is
:mod:`tidelake.table`; no rows are read here.
"""

from tidelake.catalog.catalog import Catalog
from tidelake.catalog.opening import open_catalog

__all__ = ["Catalog", "open_catalog"]
