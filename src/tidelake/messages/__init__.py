"""Messages of a queue as rows, and rows as messages: JSON, Avro, CSV, raw, and change logs in JSON.

A format takes the bytes of many messages and gives one Arrow batch with the kind of each row; a
message that it cannot decode gives an entry with the reason, and the other messages still give
rows. Names, defaults and meaning of the options are those of Flink's formats. Nothing of queues,
tables or Spark may enter: this room neither fetches bytes nor stores rows.
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
