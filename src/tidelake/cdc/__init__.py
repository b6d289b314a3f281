"""Change data capture: a database's tables kept equal in the lake.

A *source* reads the log of a database, or topics of change events, as batches of typed rows with
positions. A *job* cuts them into epochs, writes the end of each epoch down before its commits, and
gives each epoch to the tables once.
"""
