"""Runs statements without Spark: on catalogs, and by the kernel if it can answer.

It also holds the session: current catalog and database, temporary tables, settings. pyspark may not
enter.
"""
