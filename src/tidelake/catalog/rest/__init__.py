"""Paimon's REST catalog as a client: tables, commits and keys of a server.

A server says which tables there are, and decides their next schemas and snapshots. Files are read
and written as ever. No token may enter a message, a display or a pickle.
"""

from tidelake.catalog.rest.opening import rest_metastore
from tidelake.catalog.rest.settings import OPTIONS, PREFIXES

__all__ = ["OPTIONS", "PREFIXES", "rest_metastore"]
