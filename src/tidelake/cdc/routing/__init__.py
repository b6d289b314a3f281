"""Which tables of a source are kept equal, and under which names.

Names only: no schema and no database may enter.
"""
