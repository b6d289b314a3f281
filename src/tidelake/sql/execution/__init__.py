"""Statements carried out without Spark: on catalogs, and by the kernel where it can answer.

It also holds the session: current catalog and database, temporary tables, settings. pyspark may not
enter.
"""
