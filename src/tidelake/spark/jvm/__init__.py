"""Java in one room: our classes beside Spark's own, and the private names of Spark that we use.

Each class is a file of Java in this package. Queries and tables stay outside. Nothing but Spark's
session may be imported here.
"""
