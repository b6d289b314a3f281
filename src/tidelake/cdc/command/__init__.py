"""What a user asks of a job: Paimon's arguments and ours, by command line or file, as one value.

Nothing is opened or run, and no environment is read but by argument.
"""
