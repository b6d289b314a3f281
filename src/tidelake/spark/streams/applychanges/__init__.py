"""Change feeds applied to tables: ``tl.apply_changes``, for types 1 and 2.

:mod:`~tidelake.spark.streams.applychanges.definition` takes the arguments,
:mod:`~tidelake.spark.streams.applychanges.target_tables` makes or checks the tables, and
:mod:`~tidelake.spark.streams.applychanges.apply` applies a batch. The rows of a key are decided by
:mod:`tidelake.merge.change_history`.
"""
