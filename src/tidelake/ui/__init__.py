"""A warehouse as a page: a server on this machine, one HTML file of a table, and metrics.

What is shown is computed as values (``model``), made into HTML (``pages``), and served
(``server``). Rows of tables are never read, and nothing changes unless actions are allowed.
"""
