"""The logs of a table: snapshots, schemas, tags, consumers, statistics, long-lived changelogs.

A log is a directory of small JSON files, each written once. A log knows nothing of manifests;
:mod:`tidelake.metadata.snapshot_files` joins the two.
"""
