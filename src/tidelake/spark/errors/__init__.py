"""Errors of Spark in the user's words.

Analysis, a running query and a value that does not fit have one module each. Nothing here runs a
query.
"""
