"""What a source of changes is to a job: tables, positions, rows with their kinds, findings.

Values and protocols; how a database speaks may not enter.
"""
