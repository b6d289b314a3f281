"""Writes: a DataFrame into a table in one commit, and compactions as jobs.

Rows are clustered by bucket in the JVM, written by tasks, committed by the driver. No statement is
parsed here.
"""
