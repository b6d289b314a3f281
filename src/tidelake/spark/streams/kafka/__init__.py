"""Tables of Kafka on Spark: declared in a session, read as batches and streams, written.

The driver plans slices of offsets. Tasks read them and decode the columns wanted. A write encodes
rows as messages in tasks. :mod:`tidelake.kafka` knows topics and offsets, :mod:`tidelake.messages`
the formats. This room loads no library of Kafka.
"""
