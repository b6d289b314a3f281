"""Metrics for Prometheus: of tables, of this process's commits, and of a maintenance job.

Each is a collector, which makes its samples when it is asked. The library is loaded by the first
one. No HTML and no row may enter.
"""
