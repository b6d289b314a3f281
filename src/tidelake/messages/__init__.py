"""Messages of a queue as rows, and rows as messages: JSON, Avro, CSV, raw, and change logs in JSON.

A format takes the bytes of many messages and gives one Arrow batch with the kind of each row; a
message that cannot be read is one entry with its reason, and the others are rows all the same.
Names, defaults and meaning of the options are those of Flink's formats. Nothing of queues, tables
or Spark may enter: who fetches the bytes, and who stores the rows, is not known here.
"""

from tidelake.messages.decoded import BadMessage, Decoded, Decoder, Encoder
from tidelake.messages.formats import FORMATS, MessageFormat, format_named

__all__ = [
    "FORMATS",
    "BadMessage",
    "Decoded",
    "Decoder",
    "Encoder",
    "MessageFormat",
    "format_named",
]
