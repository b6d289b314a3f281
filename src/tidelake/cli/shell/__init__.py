"""Reads statements from a file, a pipe or the prompt, and writes answers.

It has completion, history, paging and the commands that begin with a backslash. Only ``terminal``
needs prompt_toolkit; the engine runs the statements.
"""
