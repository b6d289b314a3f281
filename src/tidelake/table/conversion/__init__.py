"""Rows in and out of Python: Arrow, pandas, Polars, dicts, any stream of batches.

Everything becomes Arrow batches of bounded size. No table is opened here.
"""
