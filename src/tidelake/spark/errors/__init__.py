"""Spark's errors with messages for users.

Analysis, a running query and a value that does not fit have one module each. Nothing here runs a
query.
"""
