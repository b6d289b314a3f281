"""The data source ``format("tidelake")`` of Spark's Python API.

It translates options and calls into reads and writes of the other rooms. Only the package's face
may import it.
"""
