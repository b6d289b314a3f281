"""Catalogs whose names are in a Hive Metastore or in AWS Glue, as Paimon's HiveCatalog keeps them.

An entry says where a table's files lie and shows its columns to engines that ask the metastore
alone. What the table holds is in its files: columns in an entry are a copy, and no commit asks for
it.
"""

from tidelake.catalog.hive.metastore import HiveMetastore
from tidelake.catalog.hive.opening import glue_metastore, hive_metastore
from tidelake.catalog.hive.options import GLUE_OPTIONS, HIVE_OPTIONS

__all__ = [
    "GLUE_OPTIONS",
    "HIVE_OPTIONS",
    "HiveMetastore",
    "glue_metastore",
    "hive_metastore",
]
