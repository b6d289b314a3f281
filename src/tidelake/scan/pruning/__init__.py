"""The decision that a file, a bucket or a partition can be skipped.

Statistics, key ranges and file indexes are asked, cheapest first. A file is skipped only where no
answer can change; no data file is read here.
"""
