"""Writes DataFrames to tables, each in one commit, and runs compactions as jobs.

The JVM shuffles rows by bucket, tasks write them, and the driver commits. No statement is parsed
here.
"""
