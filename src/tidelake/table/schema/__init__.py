"""A table's schema over time: altered, merged with the schema of new rows, checked.

Every version obeys the rules in ``validation``. No data file is read or written here.
"""
