"""Formats answers as text: table, CSV, JSON, vertical.

Arrow tables become lines. No statement, terminal, engine or Spark may enter.
"""
