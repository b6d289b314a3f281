"""Values of columns: the types of the server, what a column is, cells, and the lake's columns.

Row images and answers of SELECT become cells, and cells become the lake's. No connection may enter.
"""
