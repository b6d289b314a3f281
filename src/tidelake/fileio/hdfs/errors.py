"""What a name node's refusal means, in our errors: what is wrong, where, and what to do.

The client gives an error of Python's for a missing file, a name that is taken and a connection
that broke. All else comes as one text, ``RPCError("<Java class>", "<message>")``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidelake.errors import (
    StorageError,
    StorageRefusedError,
    TidelakeError,
    UnsupportedError,
    shortened,
)
from tidelake.fileio.file_io import file_missing, name_taken

CLIENT_ERRORS = (OSError, RuntimeError, NotImplementedError, ValueError)
"""All that the client raises."""
TEXT_MAX = 300
READING = frozenset({"read", "open", "look up", "list"})
_CALL = re.compile(r'(?:Fatal)?RPCError\("([\w.$]+)", "(.*)"\)', re.DOTALL)
_OTHER = re.compile(r"\w+\((.*)\)", re.DOTALL)
_MISSING = frozenset({"FileNotFoundException"})
_TAKEN = frozenset({"FileAlreadyExistsException", "AlreadyBeingCreatedException"})
_TRANSIENT = frozenset(
    {"StandbyException", "ObserverRetryOnActiveException", "RetriableException"}
    | {"NotReplicatedYetException", "RetryCacheException", "ServerTooBusyException"}
)
_QUOTAS = frozenset(
    {"NSQuotaExceededException", "DSQuotaExceededException", "QuotaExceededException"}
    | {"QuotaByStorageTypeExceededException"}
)
_LOGIN = ("SIMPLE authentication is not enabled", "SASLError", "GSSAPIError", "NoSASLMechanism")
_TRANSFER = ("DataTransferError", "OperationFailed")
_NO_NODES = re.compile(
    r"could only be (?:written|replicated) to \d+|all datanodes|no nodes|BlocksNotFound",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class HdfsRefusal:
    """What an error of the client says.

    Parameters
    ----------
    java : str
        Java's class without its package; empty if the name node did not answer.
    is_missing, is_taken : bool
        Whether a file is missing, or a name is taken.
    is_starting : bool
        Whether the name node has just started, and will leave its safe mode by itself.
    """

    java: str
    text: str
    is_missing: bool = False
    is_taken: bool = False
    is_starting: bool = False

    @property
    def is_transient(self) -> bool:
        """Whether the same call may succeed a little later: no answer, or none that decides."""
        if self.java in _TRANSIENT or self.is_starting:
            return True
        return not self.java and self.text.startswith("no answer")

    @property
    def is_final(self) -> bool:
        """Whether the name node answered that it will not, for another reason than the names."""
        return bool(self.java) and not (self.is_transient or self.is_missing or self.is_taken)

    @property
    def is_of_data_nodes(self) -> bool:
        """Whether data nodes failed, or are not there: after a start they come one by one."""
        return bool(_NO_NODES.search(self.text)) or self.text.startswith(_TRANSFER)

    @property
    def is_safe_mode(self) -> bool:
        """Whether the name node takes no changes now."""
        return self.java == "SafeModeException" or "is in safe mode" in self.text


def refusal_of(error: BaseException) -> HdfsRefusal:
    """Read an error of the client.

    Examples
    --------
    >>> found = refusal_of(RuntimeError('RPCError("org.apache.Foo", "no such user")'))
    >>> found.java, found.text
    ('Foo', 'no such user')
    """
    full = str(error)
    call = _CALL.fullmatch(full)
    if call is not None:
        java = call.group(1).rpartition(".")[2].rpartition("$")[2]
        starting = "safe mode" in full and "turned on manually" not in full
        return HdfsRefusal(
            java, _line(call.group(2)), java in _MISSING, java in _TAKEN, is_starting=starting
        )
    if isinstance(error, FileNotFoundError):
        return HdfsRefusal("FileNotFoundException", _line(full), is_missing=True)
    if isinstance(error, FileExistsError):
        return HdfsRefusal("FileAlreadyExistsException", _line(full), is_taken=True)
    if isinstance(error, IsADirectoryError):
        return HdfsRefusal("IsADirectory", _line(full) or "it is a directory")
    if isinstance(error, OSError):  # a time-out is one too
        return HdfsRefusal("", f"no answer ({_line(full) or type(error).__name__})")
    return HdfsRefusal("", _line(full))


def _line(text: str) -> str:
    """The first line: the rest is Java's stack."""
    plain = text.replace('\\"', '"').partition("\\n")[0].partition("\n")[0]
    return shortened(" ".join(plain.split()), TEXT_MAX)


def translated(
    error: BaseException, where: str, path: str, verb: str, *, refused: bool = False
) -> TidelakeError:
    """Convert an error of the client to ours.

    Parameters
    ----------
    refused : bool
        Whether it is known that nothing was changed.
    """
    found = refusal_of(error)
    if found.is_missing and verb in READING:
        return file_missing(path)
    if found.is_taken and verb == "create":
        return name_taken(path)
    if isinstance(error, NotImplementedError):
        message = f"Could not {verb} {where}: the client has no {found.text.lower()}."
        return UnsupportedError(message, kind="storage_feature", path=path)
    of_storage = StorageRefusedError if refused else StorageError
    for kind, explain in _EXPLAINED:
        sentence = explain(found)
        if sentence:
            return of_storage(f"Could not {verb} {where}: {sentence}", kind=kind, path=path)
    message = f"Could not {verb} {where}: {found.text.rstrip('.') or found.java}. Check HDFS."
    return of_storage(message, path=path)


def _safe_mode(found: HdfsRefusal) -> str:
    if not found.is_safe_mode:
        return ""
    return (
        "the name node is in safe mode and takes no changes: wait until it has left it, or see"
        " `hdfs dfsadmin -safemode get`."
    )


def _permission(found: HdfsRefusal) -> str:
    if found.java not in {"AccessControlException", "AuthorizationException"}:
        return ""
    if any(word in found.text for word in _LOGIN):
        return _login(found)
    return f"{found.text.rstrip('.')}. Give the user the right, or set HADOOP_USER_NAME."


def _login(found: HdfsRefusal) -> str:
    if not any(word in found.text for word in _LOGIN):
        return ""
    return (
        f"the cluster wants Kerberos, and the login failed ({found.text.rstrip('.')}): set"
        " 'hadoop.security.authentication' = 'kerberos', and run kinit or give"
        " 'hdfs.kerberos-principal' and 'hdfs.kerberos-keytab'."
    )


def _space(found: HdfsRefusal) -> str:
    if found.java in _QUOTAS:
        return f"{found.text.rstrip('.')}. Raise the quota, or free some."
    return ""


def _nodes(found: HdfsRefusal) -> str:
    if not _NO_NODES.search(found.text):
        return ""
    return f"no data node takes or has it ({found.text.rstrip('.')}): look at the data nodes."


def _standby(found: HdfsRefusal) -> str:
    if found.java not in _TRANSIENT:
        return ""
    return (
        f"no name node is active ({found.text.rstrip('.') or found.java}): try again, and look at"
        " `hdfs haadmin -getAllServiceState`."
    )


def _unreachable(found: HdfsRefusal) -> str:
    if found.java or not found.is_transient:
        return ""
    return f"{found.text}. Check host and port, and that name nodes and data nodes run."


_EXPLAINED = (
    ("safe_mode", _safe_mode),
    ("no_permission", _permission),
    ("credentials", _login),
    ("no_space", _space),
    ("no_data_node", _nodes),
    ("name_node_standby", _standby),
    ("unreachable", _unreachable),
)
