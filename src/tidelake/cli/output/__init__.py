"""Answers as text: tables, CSV, JSON and other formats.

It turns Arrow tables into lines and knows nothing of statements. No terminal, no engine and no
Spark may enter.
"""
