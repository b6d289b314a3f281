"""Jobs: a source's changes cut into epochs, each applied to the targets once.

How a source speaks may not enter.
"""
