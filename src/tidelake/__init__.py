"""Tidelake: a streaming lakehouse in Python on Spark, on Apache Paimon's own file format."""
