"""Change feeds applied to tables: ``tl.apply_changes``, for types 1 and 2.

:mod:`~tidelake.spark.applychanges.definition` takes the arguments,
:mod:`~tidelake.spark.applychanges.target_tables` makes or checks the tables, and
:mod:`~tidelake.spark.applychanges.apply` applies a batch. The rows of a key are decided by
:mod:`tidelake.merge.change_history`.
"""
