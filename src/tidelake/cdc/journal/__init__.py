"""The journal of a job: where each epoch ends, written before the epoch's commits.

It knows no database and no table's files.
"""
