"""Topics of Kafka as tables, without Spark: what is declared, which offsets, and their rows.

The driver finds partitions and offsets and cuts them into slices; whoever reads a slice gives its
messages to a format of :mod:`tidelake.messages`. No offset is ever committed to Kafka: where a
reader stands is kept by the reader. Nothing of Spark may enter, and only ``_optional.py`` loads the
client's library.
"""

from tidelake.kafka.definition import KafkaTable, MetadataColumn
from tidelake.kafka.offsets import KafkaOffsets, Slice

__all__ = ["KafkaOffsets", "KafkaTable", "MetadataColumn", "Slice"]
