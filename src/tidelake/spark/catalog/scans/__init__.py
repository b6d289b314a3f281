"""Reads by plain ``spark.sql``: what Spark pushes down, the plan of the rows, and their way.

The rule that puts our plans into those of queries is here too. Tables are no part of this room.
"""
