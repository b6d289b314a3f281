"""Storages by location and options, and the secrets that reach them."""

from __future__ import annotations

from tidelake.fileio import FileIO, put_new
from tidelake.fileio.doctor import examine
from tidelake.fileio.hdfs.settings import parse_hdfs_settings
from tidelake.fileio.location import SCHEMES, parse_location
from tidelake.fileio.object_store.settings import is_storage_key, parse_settings
from tidelake.fileio.opening import account_of, open_storage, sends_secrets, split_options, store_id
from tidelake.fileio.secret import SecretCarrier, SentSecrets, carry_by, known_secrets

__all__ = [
    "SCHEMES",
    "FileIO",
    "SecretCarrier",
    "SentSecrets",
    "account_of",
    "carry_by",
    "examine",
    "is_storage_key",
    "known_secrets",
    "open_storage",
    "parse_hdfs_settings",
    "parse_location",
    "parse_settings",
    "put_new",
    "sends_secrets",
    "split_options",
    "store_id",
]
