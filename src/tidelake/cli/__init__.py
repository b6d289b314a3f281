"""The program ``tidelake``: statements from a terminal, a file or a pipe."""
