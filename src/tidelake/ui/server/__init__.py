"""Serves the pages on one address of this machine: who may ask, for what, and the answers.

``site`` turns a request into an answer without any socket; ``http_server`` is the library's server
around it. No table is read here, and no HTML is written here.
"""
