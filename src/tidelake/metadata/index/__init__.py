"""The index manifest and the files that it names: hash indexes and deletion vectors.

Each kind has one reader and one writer of its bytes. Other rooms decide which rows are deleted.
"""
