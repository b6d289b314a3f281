"""The prompt: statements come in from a file, a pipe or a terminal, answers go out.

It holds completion, history, paging and the commands that begin with a backslash. Only ``terminal``
needs prompt_toolkit; nothing here runs a statement itself.
"""
