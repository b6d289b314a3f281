"""SQL statements on a Spark session.

Each table of ours in a query becomes a DataFrame; statements that write go to the rooms below. No
executor code stands here.
"""
