"""Executors: each owns some buckets of each table, keeps their lookup files, and answers by key.

An executor is one process: a local one (:mod:`tidelake.service.local`) or a task of Spark's. It
talks to the address server and to clients, and to no other executor.
"""
