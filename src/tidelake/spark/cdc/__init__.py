"""Change data capture on Spark: a job as a query of Structured Streaming.

1. The query's batches drive the same job as a process without Spark. The job's journal says what is
   applied; the checkpoint only numbers batches, and may be lost.
2. Chunks of a large first copy are read and written by executors; epochs are written on the driver.
"""
