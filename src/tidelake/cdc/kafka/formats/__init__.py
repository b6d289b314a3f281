"""Formats of change events: what a message says of tables and rows, and the types it names.

Messages in, events out: nothing of Kafka's client, of tables in the lake or of jobs may enter.
"""
