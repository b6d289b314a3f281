"""Topics of Kafka as tables, without Spark: declarations, offsets and rows.

The driver finds partitions and offsets and cuts them into slices. A reader of a slice gives its
messages to a format of :mod:`tidelake.messages`. No offset is ever committed to Kafka: each reader
keeps its own offsets. Nothing of Spark may enter, and only ``_optional.py`` loads the client's
library.
"""

from tidelake.kafka.definition import KafkaTable, MetadataColumn
from tidelake.kafka.offsets import KafkaOffsets, KafkaSlice

__all__ = ["KafkaOffsets", "KafkaSlice", "KafkaTable", "MetadataColumn"]
