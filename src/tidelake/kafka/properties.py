"""Translates settings of Kafka's Java client, which Flink's tables use, to librdkafka's.

Most have the same name in both. A setting that only the Java client has is left out if it has no
effect here, else refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tidelake.errors import UnsupportedError

AUTO_OFFSET_RESET, GROUP = "auto.offset.reset", "group.id"
_RENAMED = {"max.request.size": "message.max.bytes", "client.dns.lookup": "client.dns.lookup"}
_WITHOUT_EFFECT = frozenset(
    {
        "key.deserializer", "value.deserializer", "key.serializer", "value.serializer",
        "partition.discovery.interval.ms", "client.id.prefix", "max.poll.records",
        "register.consumer.metrics", "commit.offsets.on.checkpoint", "enable.auto.commit",
        "buffer.memory", "default.api.timeout.ms", "request.timeout.ms", "max.block.ms",
    }
)  # fmt: skip
_JAVA_STORES = ("ssl.truststore.", "ssl.keystore.type", "ssl.keystore.certificate")
_LOGIN = re.compile(r"(Plain|Scram)LoginModule\s+required\b(.*)", re.DOTALL)
_CREDENTIAL = re.compile(r"(username|password)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")


def client_settings(properties: Mapping[str, str], *, table: str) -> dict[str, str]:
    """Translate settings.

    Parameters
    ----------
    properties : mapping of str to str
        Without the prefix ``properties.``.

    Raises
    ------
    UnsupportedError
        A setting has no counterpart.

    Examples
    --------
    >>> client_settings({"bootstrap.servers": "b:9092", "max.request.size": "9"}, table="t")
    {'bootstrap.servers': 'b:9092', 'message.max.bytes': '9'}
    """
    settings: dict[str, str] = {}
    for name, value in properties.items():
        if name == "sasl.jaas.config":
            settings |= _login(value, table)
        elif name.startswith(_JAVA_STORES):
            message = (
                f"Option 'properties.{name}' of table '{table}' belongs to Java's key stores: give"
                " certificates in PEM files, by 'properties.ssl.ca.location',"
                " 'properties.ssl.certificate.location' and 'properties.ssl.key.location'."
            )
            raise UnsupportedError(message, kind="kafka_setting", option=name, table=table)
        elif name not in _WITHOUT_EFFECT:
            settings[_RENAMED.get(name, name)] = value
    return settings


def _login(text: str, table: str) -> dict[str, str]:
    found = _LOGIN.search(text)
    given = {m[1]: m[2] if m[2] is not None else m[3] for m in _CREDENTIAL.finditer(text)}
    if found is None or set(given) != {"username", "password"}:
        message = (
            f"Option 'properties.sasl.jaas.config' of table '{table}' has no PlainLoginModule or"
            " ScramLoginModule with username and password: use 'properties.sasl.username' and"
            " 'properties.sasl.password', or the settings of librdkafka."
        )
        raise UnsupportedError(message, kind="kafka_setting", option="sasl.jaas.config")
    return {"sasl.username": given["username"], "sasl.password": given["password"]}
