"""New tables of files that exist: copies of tables, and tables of other formats that move in.

What is here makes the table, lets a job bring the files, and takes all back if that fails. The jobs
are :mod:`tidelake.table.cloning`'s.
"""
