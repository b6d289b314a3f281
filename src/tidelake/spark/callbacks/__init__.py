"""Python objects that Spark calls through py4j: what they implement, and how they refuse.

Nothing of tables or streams enters: those who are called lie above.
"""
