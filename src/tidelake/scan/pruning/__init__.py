"""Decides that a file, a bucket or a partition can be skipped.

Statistics, key ranges and file indexes are used, cheapest first. A file is skipped only if no
answer can change; no data file is read here.
"""
