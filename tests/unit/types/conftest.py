"""Hypothesis without a deadline: how long one example takes says more of the machine's load."""

from hypothesis import settings

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
