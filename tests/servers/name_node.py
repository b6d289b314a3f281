"""A name node in memory, with the face of ``hdfs_native.Client``, and faults on order.

It keeps the rules on which publishing rests: a rename is whole or not at all, never overwrites
unless told to, and needs its source and the directory of its target. ``tests/stores/hdfs`` holds
the real one to the same tests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

__all__ = ["Fault", "NameNode", "library", "rpc_error"]

HADOOP = "org.apache.hadoop"
CHANGED_MS = 1_700_000_000_000


def rpc_error(java: str, text: str) -> RuntimeError:
    """An answer of Java's as the client raises it."""
    return RuntimeError(f'RPCError("{java}", "{text}\\n\\tat {HADOOP}.Server.call(Server.java:1)")')


def _no_parent(path: str) -> FileNotFoundError:
    return FileNotFoundError(f"Parent directory doesn't exist: {path}")


@dataclass
class Fault:
    """What goes wrong with the next calls of one name.

    Parameters
    ----------
    call : str
        The client's method.
    before : exception, optional
        Raised in place of the call.
    after : exception, optional
        Raised once the call took effect.
    again : bool
        Whether the client sends the call again after it took effect, since the answer was lost.
    count, skip : int
        How many calls, after so many.
    """

    call: str
    before: Exception | None = None
    after: Exception | None = None
    again: bool = False
    count: int = 1
    skip: int = 0


@dataclass
class NameNode:
    """Files and directories."""

    nodes: dict[str, bytes | None] = field(default_factory=lambda: {"/": None})
    faults: list[Fault] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    hooks: dict[str, Callable[[], None]] = field(default_factory=dict)
    """Done once, right before the next call of that name: another process."""
    times: dict[str, int] = field(default_factory=dict)
    """When a path was last changed, in ms, where that is not :data:`CHANGED_MS`."""

    def fault_at(self, fault: Fault, number: int) -> None:
        """Let a fault meet the n-th call of its name from now on, counted from 1."""
        fault.skip = number - 1
        self.faults.append(fault)

    @property
    def has_pending(self) -> bool:
        """Whether a fault met no call."""
        return any(each.count for each in self.faults)

    def copy(self) -> NameNode:
        """Another one with the same files."""
        return NameNode(dict(self.nodes))

    def call(self, name: str, work: Callable[[], Any]) -> Any:
        """Do a call, or what a fault makes of it."""
        self.calls.append(name)
        hook = self.hooks.pop(name, None)
        if hook is not None:
            hook()
        fault = next((each for each in self.faults if each.call == name and each.count), None)
        if fault is not None and fault.skip:
            fault.skip -= 1
            fault = None
        if fault is None:
            return work()
        fault.count -= 1
        if fault.before is not None:
            raise fault.before
        work()
        if fault.again:
            return work()
        assert fault.after is not None
        raise fault.after

    # the rules

    def look(self, path: str) -> bytes | None:
        path = path.rstrip("/") or "/"
        parent = path
        while parent != "/":
            parent = parent.rpartition("/")[0] or "/"
            if self.nodes.get(parent) is not None:
                text = f"{parent} (is not a directory)"
                raise rpc_error(f"{HADOOP}.fs.ParentNotDirectoryException", text)
        if path not in self.nodes:
            raise FileNotFoundError(path)
        return self.nodes[path]

    def parent(self, path: str, *, make: bool) -> None:
        parent = path.rpartition("/")[0] or "/"
        try:
            found = self.look(parent)
        except FileNotFoundError:
            if not make:
                raise _no_parent(parent) from None
            self.parent(parent, make=True)
            self.nodes[parent] = None
            return
        if found is not None:
            raise rpc_error(f"{HADOOP}.fs.ParentNotDirectoryException", f"{parent} is a file")

    def create(self, path: str, *, create_parent: bool) -> None:
        self.parent(path, make=create_parent)
        if path in self.nodes:
            raise FileExistsError(f"{path} for client 127.0.0.1 already exists")
        self.nodes[path] = b""

    def mkdirs(self, path: str, *, create_parent: bool) -> None:
        if path in self.nodes:
            if self.nodes[path] is not None:
                raise FileExistsError(f"Path is not a directory: {path}")
            return
        self.parent(path, make=create_parent)
        self.nodes[path] = None
        self.times.pop(path.rpartition("/")[0], None)  # changed now

    def rename(self, source: str, target: str, *, overwrite: bool) -> None:
        if source not in self.nodes:
            raise FileNotFoundError(f"rename source {source} is not found.")
        if target in self.nodes and not overwrite:
            raise FileExistsError(f"rename destination {target} already exists")
        self.parent(target, make=False)
        moved = [path for path in self.nodes if f"{path}/".startswith(f"{source}/")]
        for path in moved:
            self.nodes[target + path[len(source) :]] = self.nodes.pop(path)

    def delete(self, path: str, *, recursive: bool) -> bool:
        below = [each for each in self.nodes if each.startswith(f"{path}/")]
        if below and not recursive:
            raise rpc_error(f"{HADOOP}.fs.PathIsNotEmptyDirectoryException", f"{path} is non empty")
        found = path in self.nodes
        for each in (*below, path):
            self.nodes.pop(each, None)
        return found


def library(found: Callable[[str], NameNode]) -> SimpleNamespace:
    """What stands in for the module ``hdfs_native``; takes what finds the name node of a URL."""
    return SimpleNamespace(
        Client=lambda url, *_, **__: Client(found(url)),
        WriteOptions=lambda **options: SimpleNamespace(**options),
    )


class Client:
    """The face of ``hdfs_native.Client``."""

    def __init__(self, node: NameNode) -> None:
        self._node = node

    def get_file_info(self, path: str) -> SimpleNamespace:
        return self._node.call("get_file_info", lambda: self._status(path))

    def _status(self, path: str) -> SimpleNamespace:
        try:
            data = self._node.look(path)
        except RuntimeError as error:  # below a file: that call does not tell
            raise FileNotFoundError(path) from error
        return SimpleNamespace(
            path=path,
            isdir=data is None,
            length=len(data or b""),
            modification_time=self._node.times.get(path, CHANGED_MS),
        )

    def list_status(self, path: str, recursive: bool) -> Iterator[SimpleNamespace]:
        assert not recursive
        plain = path.rstrip("/")
        if self._node.call("list_status", lambda: self._node.look(plain or "/")) is not None:
            yield self._status(path)
            return
        for each in sorted(self._node.nodes):
            if each != "/" and each.rpartition("/")[0] == plain:
                yield self._status(each)

    def read(self, path: str) -> Reader:
        data = self._node.call("read", lambda: self._node.look(path))
        if data is None:
            raise FileNotFoundError(f"Path is not a file: {path}")
        return Reader(data)

    def create(self, path: str, options: Any) -> Writer:
        assert not options.overwrite
        self._node.call(
            "create", lambda: self._node.create(path, create_parent=options.create_parent)
        )
        return Writer(self._node, path)

    def mkdirs(self, path: str, permission: int, create_parent: bool) -> None:
        self._node.call("mkdirs", lambda: self._node.mkdirs(path, create_parent=create_parent))

    def rename(self, source: str, target: str, overwrite: bool = False) -> None:
        self._node.call("rename", lambda: self._node.rename(source, target, overwrite=overwrite))

    def delete(self, path: str, recursive: bool) -> bool:
        return self._node.call("delete", lambda: self._node.delete(path, recursive=recursive))


class Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def __len__(self) -> int:
        return len(self._data)

    def read_range(self, offset: int, length: int) -> bytes:
        assert offset + length <= len(self._data), "the real one panics"
        return self._data[offset : offset + length]


class Writer:
    def __init__(self, node: NameNode, path: str) -> None:
        self._node, self._path, self._data = node, path, b""

    def write(self, data: bytes) -> int:
        self._node.call("write", lambda: None)
        self._data += data
        return len(data)

    def hsync(self) -> None:
        self._node.call("hsync", lambda: None)

    def close(self) -> None:
        self._node.call("close", self._complete)

    def _complete(self) -> None:
        if self._path not in self._node.nodes:
            raise FileNotFoundError(f"File does not exist: {self._path} (inode 1)")
        self._node.nodes[self._path] = self._data
