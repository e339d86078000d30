"""Limits for kafka-python's connections: size and memory of responses, and time of lookups and TLS handshakes.

The library has neither these limits nor hooks for them. So this module replaces five of its functions when it is
imported, and extends its connection manager. The limits hold for the connections of a `LimitedManager` only.
"""

from __future__ import annotations

import re
import ssl
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kafka import errors
from kafka.net.inet import KafkaNetSocket, create_connection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.protocol.schemas.fields.array import ArrayField
from kafka.protocol.schemas.fields.struct import StructField
from kafka.protocol.schemas.fields.struct_array import StructArrayField

MAX_RESPONSE_BYTES, MAX_BYTES = 1 << 28, 1 << 30
"""Maximum size of a response, and of what all brokers together send while requests are answered (see `Budget`)."""

MAX_DECODED_BYTES, MAX_LISTED_BYTES = 1 << 32, 1 << 28
"""Maximum memory for the elements of these responses (26 million committed offsets), and for those of ListGroups and
ListPartitionReassignments (1.6 million groups). An element takes up to 50 times its bytes in the response."""

_UNDECODABLE = "Unable to decode response"
"""The library's text."""

_STRUCT_BYTES, _VALUE_BYTES = 160, 40
"""Approximate memory of an element of a response: a struct, or a number or text."""

MAX_NAME_LOOKUP_S, MAX_LOOKUPS_S = 15.0, 120.0
"""Time that failed lookups of a host name may take before it isn't looked up again, and the time that all lookups for a
cluster may take. A lookup holds up the requests to all brokers of the cluster."""

MAX_TURN_BYTES = 1 << 24
"""What is read of a connection at a time, after which others, timeouts, and signals have their turn."""

_SIZE_BYTES = 4
"""Size in bytes of the number before a response, and of the number that each response begins with."""

OF_THREAD = threading.local()
"""`manager` is the connection manager that uses the thread for its connections."""


@dataclass
class Budget:
    """What all brokers together may use, and each of them has a share of: one that uses too much can't deprive others.

    A broker may also use what the others haven't used yet, so all together use less than twice the maximum.
    """

    maximum: int
    brokers: int = 1
    used: Counter[Any] = field(default_factory=Counter)
    """By broker."""

    def limit(self, broker: Any) -> int:
        """Returns how much a broker may use in total."""
        return max(self.maximum - self.used.total() + self.used[broker], self.maximum // max(self.brokers, 1))


def _elements(number: int, size: int, left: int) -> range:
    """Returns the positions of the elements that an array of a response claims. Each takes at least one of the bytes
    that are left in the response. Raises KafkaProtocolError for more, or if all elements take too much memory.
    """
    if manager := getattr(OF_THREAD, "manager", None):
        if number > left:
            raise errors.KafkaProtocolError(_UNDECODABLE)
        manager.decoded += max(number, 0) * size
        if manager.decoded > manager.max_decoded:
            limit = f"{manager.max_decoded / (1 << 20):,.4g} MiB of memory"
            raise errors.KafkaProtocolError(f"the responses to these requests have elements for more than {limit}")
    return range(number)


def _with_limit(emit: Callable[..., None], size: int) -> Callable[..., None]:
    """Returns the library's function that writes the code to read an array, with a limit for its elements."""

    def emit_with_limit(field: Any, code: Any, *arguments: Any, **options: Any) -> None:
        start = len(code.lines)
        emit(field, code, *arguments, **options)
        code.globs["_elements"] = _elements
        at = next(at for at in range(start, len(code.lines)) if " in range(" in code.lines[at])
        code.lines[at] = re.sub(r" in range\((\w+)\):", rf" in _elements(\1, {size}, len(data) - pos):", code.lines[at])

    return emit_with_limit


ArrayField.emit_decode_from = _with_limit(ArrayField.emit_decode_from, _VALUE_BYTES)
StructArrayField.emit_decode_from = _with_limit(StructArrayField.emit_decode_from, _STRUCT_BYTES)


def _lookup_with_limit(lookup: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """Returns the library's function that looks up a host name, with a limit in time. Without it, a name server that
    doesn't answer would hold up a snapshot for each name that a broker lists.
    """

    def lookup_with_limit(proxy: Any, host: str, *arguments: Any, **options: Any) -> list[Any]:
        manager = getattr(OF_THREAD, "manager", None)
        if manager is None:
            return lookup(proxy, host, *arguments, **options)
        if manager.lookups_s > MAX_LOOKUPS_S or manager.failed_lookups_s[host] > MAX_NAME_LOOKUP_S:
            slow = f"its lookups took more than {MAX_NAME_LOOKUP_S:g} s, or all more than {MAX_LOOKUPS_S:g} s"
            raise errors.KafkaConnectionError(f"the host name {host:.260} isn't looked up again: {slow}")
        start_s, found = time.monotonic(), []
        try:
            found = lookup(proxy, host, *arguments, **options)
        finally:
            manager.lookups_s += (took_s := time.monotonic() - start_s)
            manager.failed_lookups_s[host] += 0 if found else took_s
        return found

    return lookup_with_limit


KafkaNetSocket.dns_lookup = _lookup_with_limit(KafkaNetSocket.dns_lookup)


def _closed_if_refused(connect: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the library's function that connects a socket. It closes the socket if that fails."""

    async def connect_or_close(proxy: Any, net: Any, sock: Any, *arguments: Any, **options: Any) -> Any:
        try:
            return await connect(proxy, net, sock, *arguments, **options)
        except BaseException:
            sock.close()
            raise

    return connect_or_close


KafkaNetSocket.sock_connect = _closed_if_refused(KafkaNetSocket.sock_connect)


class _TaggedFields:
    """The bytes of a response from the tagged fields of a struct on, read where they are."""

    def __init__(self, data: bytes | memoryview, start: int) -> None:
        self._data, self._start, self._at = data, start, start

    def read(self, size: int) -> bytes:
        """Reads as a file does."""
        _elements(1, _STRUCT_BYTES, 1)
        piece = bytes(self._data[self._at : self._at + size])
        self._at += len(piece)
        return piece

    def tell(self) -> int:
        """Returns how many bytes have been read."""
        return self._at - self._start


def _without_copies(emit: Callable[..., None]) -> Callable[..., None]:
    """Returns the library's function that writes the code to read tagged fields, without the copy of the rest of the
    response that each struct with such a field would make: 400,000 structs in 12 MB would take two minutes.
    """

    def emit_without_copies(field: StructField, code: Any, *arguments: Any) -> None:
        start = len(code.lines)
        emit(field, code, *arguments)
        code.globs["_TaggedFields"] = _TaggedFields
        copy, reader = "_BytesIO(bytes(data[pos:]))", "_TaggedFields(data, pos)"
        code.lines[start:] = [line.replace(copy, reader) for line in code.lines[start:]]

    return emit_without_copies


StructField._emit_tagged_decode = _without_copies(StructField._emit_tagged_decode)


class LimitedManager(KafkaConnectionManager):  # type: ignore[misc]  # the library has no types
    """Reads the response of a broker that closes the connection right after it, and bounds what it reads.

    A broker responds to a denied login and closes at once. If both arrive together, the library drops the response,
    and a wrong password looks like a lost connection.
    """

    decoded, max_decoded = 0, MAX_DECODED_BYTES
    """Approximate memory of the elements of one broker, of which a response is decoded now, and its limit."""
    lookups_s = 0.0

    def __init__(self, net: Any, **settings: Any) -> None:
        super().__init__(net, **settings)
        self.start_budgets(MAX_DECODED_BYTES)
        self.failed_lookups_s: dict[str, float] = defaultdict(float)

    def start_budgets(self, max_memory: int) -> None:
        """Starts the budgets of requests: the bytes of responses, and the approximate memory of their elements."""
        brokers = len(self.cluster.brokers())
        self.received, self.memory = Budget(MAX_BYTES, brokers), Budget(max_memory, brokers)

    async def _connect(self, node: Any, conn: Any, **options: Any) -> None:
        OF_THREAD.manager = self
        conn.data_received = _refused_at_once(conn.data_received, self, node.node_id)
        conn._get_api_versions = _refused_if_null(conn._get_api_versions, node.node_id)
        await super()._connect(node, conn, **options)

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        """As the library does it, but a TLS handshake has the connection's limit in time, too."""
        options, proxy = self.config["socket_options"], self.config["proxy_url"]
        sock = await create_connection(self._net, node.host, node.port, options, proxy_url=proxy, timeout_at=timeout_at)
        transport: Any = KafkaTCPTransport(self._net, sock, host=node.host)
        if self.ssl_enabled:
            try:
                settings = {name: value for name, value in self.config.items() if name.startswith("ssl_")}
                transport = KafkaSSLTransport(self._net, sock, host=node.host, **settings)
                await _handshake(transport._sock, self._net, timeout_at)
            except Exception as error:
                sock.close()
                transport._sock.close()
                raise errors.KafkaConnectionError(f"Handshake failed: {error}") from error
        transport._sock = _CountedSocket(transport._sock, self, node.node_id)
        transport._sock_recv = _complete_responses(transport._sock_recv)
        return transport


async def _handshake(tls: ssl.SSLSocket, net: Any, timeout_at: float | None) -> None:
    while True:
        try:
            return tls.do_handshake()
        except ssl.SSLWantReadError:
            await net.wait_read(tls, timeout_at)
        except ssl.SSLWantWriteError:
            await net.wait_write(tls, timeout_at)


class _CountedSocket:
    """A socket that counts what it receives, and pauses: the library reads as long as a broker sends."""

    def __init__(self, socket: Any, manager: LimitedManager, broker: Any) -> None:
        self._socket, self._manager, self._broker, self._in_turn = socket, manager, broker, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._socket, name)

    def recv(self, size: int) -> bytes:
        """Receives as a socket does. Raises KafkaConnectionError beyond the limit."""
        # What TLS has decrypted doesn't wake up the selector.
        if self._in_turn > MAX_TURN_BYTES and not getattr(self._socket, "pending", int)():
            self._in_turn = 0
            raise BlockingIOError
        received, broker = self._manager.received, self._broker
        if received.used[broker] > (limit := received.limit(broker)):
            sent = f"broker {broker} has sent more than {limit / (1 << 20):,.4g} MiB for these requests"
            raise errors.KafkaConnectionError(sent)
        data: bytes = self._socket.recv(size)
        received.used[broker] += len(data)
        self._in_turn += len(data)
        return data


def _complete_responses(receive: Callable[[], tuple[bytes, Any]]) -> Callable[[], tuple[bytes, Any]]:
    """Returns only complete responses: the library allocates the size that a response claims before its bytes arrive.

    An error that came with them recurs at the next read. A size that none may have is an error at once: the library
    takes 0 for one, and would look at a gigabyte of them.
    """
    received = bytearray()

    def receive_responses() -> tuple[bytes, Any]:
        nonlocal received
        data, error = receive()
        received += data
        end = 0
        while len(received) >= end + _SIZE_BYTES:
            size = int.from_bytes(received[end : end + _SIZE_BYTES], "big", signed=True)
            if not _SIZE_BYTES <= size <= MAX_RESPONSE_BYTES:
                return b"", errors.InvalidReceiveError(f"Invalid frame length: {size}")
            if end + _SIZE_BYTES + size > len(received):
                break
            end += _SIZE_BYTES + size
        if not end:
            return b"", error
        responses, received = bytes(received[:end]), received[end:]
        return responses, None

    return receive_responses


def _refused_at_once(receive: Callable[[bytes], None], manager: LimitedManager, broker: Any) -> Callable[[bytes], None]:
    """Closes the connection after a response that can't be decoded. After most errors of its decoder, the library stops
    reading, and each request waits for its timeout. What was decoded of the response takes no more memory then.
    """

    def receive_or_refuse(data: bytes) -> None:
        memory = manager.memory
        manager.decoded, manager.max_decoded = memory.used[broker], memory.limit(broker)
        try:
            receive(data)
            memory.used[broker] = manager.decoded
            return
        except Exception as error:
            text = error.args[0] if isinstance(error, errors.KafkaProtocolError) else _UNDECODABLE
        # Outside of the handler, so that the error doesn't keep what was decoded.
        problem = "malformed response" if text == _UNDECODABLE else text
        raise errors.KafkaProtocolError(f"broker {broker}: {problem}")

    return receive_or_refuse


def _refused_if_null(get_versions: Callable[..., Any], broker: Any) -> Callable[..., Any]:
    """Returns the library's function that reads the versions of a broker's APIs. The list of them is null in a response
    of another version than the request.
    """

    async def get_or_refuse(*arguments: Any) -> None:
        try:
            await get_versions(*arguments)
        except TypeError:
            raise errors.KafkaProtocolError(f"broker {broker}: malformed response") from None

    return get_or_refuse
