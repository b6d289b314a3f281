"""The log of one slot: the replication protocol, messages by column, ranges with an end.

Frames and rows; the catalogue may not enter.
"""
