"""The commands that show a warehouse as pages.

They read what the command line gives, and start a server or write a file. No Spark and no terminal
may enter.
"""
