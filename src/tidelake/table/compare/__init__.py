"""Versions of a table compared: rows that differ, commits that changed a key, the first bad one.

A version is a snapshot of the table or of one of its branches. Nothing here writes.
"""
