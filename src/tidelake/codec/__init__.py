"""Bytes and hashes of single values: binary rows, keys in order, bucket hashes, bitmaps.

Every layout is Paimon's and has golden bytes. No file, no table and no option may enter.
"""
