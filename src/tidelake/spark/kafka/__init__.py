"""Tables of Kafka on Spark: declared in a session, read as batches and streams, written.

The driver plans slices of offsets, tasks read them and decode the columns wanted; rows that are
written become messages in tasks. What a topic, an offset and a format are is known to
:mod:`tidelake.kafka` and :mod:`tidelake.messages`; no library of Kafka's is loaded here.
"""
