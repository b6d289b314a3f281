"""The query service and its client: point reads by key over gRPC, without Spark.

An address server names the executors of a table, each executor owns some of its buckets, and a
client sends each key to the executor of its bucket. The order of the rooms is a contract. Nothing
of Spark may enter, and a program without the service never loads gRPC: its modules are
loaded through ``_optional``.
"""
