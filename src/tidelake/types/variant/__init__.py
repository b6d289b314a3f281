"""Values of type VARIANT: their bytes, and their shredded columns.

Bytes and shredding follow the Parquet specification of variants. No file format may enter.
"""
