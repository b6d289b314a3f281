"""The tables in the lake: each epoch's rows put into a target once, and what does not fit beside.

How a source speaks, and where its epochs end, may not enter.
"""
