"""System tables and views: ``$snapshots``, ``$files``, ``$audit_log`` and the others.

Names, columns and texts are Paimon's. Nothing here writes.
"""
