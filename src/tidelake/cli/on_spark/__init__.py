"""What the program runs on Spark: its session, statements, the service.

Only here may the program import ``tidelake.spark``; a command loads it when it needs Spark.
"""
