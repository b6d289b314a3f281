"""Rows deleted and updated, by predicate or by key.

Primary-key tables write rows with kinds; append tables mark positions or write files again. MERGE
of Spark uses the same parts.
"""
