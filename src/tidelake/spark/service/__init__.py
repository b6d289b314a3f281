"""The query service on Spark: executors as long-running tasks, started again where they fail.

What an executor does is that of ``tidelake.service``; here it gets a slot of the session. No rule
of lookups may enter.
"""
