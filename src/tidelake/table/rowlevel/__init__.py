"""Rows deleted and updated, by predicate or by key.

Primary-key tables write rows with kinds; append tables mark positions or rewrite files. Spark's
MERGE uses the same parts.
"""
