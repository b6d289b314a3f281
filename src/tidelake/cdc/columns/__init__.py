"""Columns of a target that its source does not have: computed, metadata and order columns.

What the definitions of a user mean, and their values for a batch of changes. How a source is read
may not enter.
"""
