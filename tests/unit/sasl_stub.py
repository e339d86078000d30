"""A Kafka broker behind TLS on a loopback port that knows no more than to log somebody in and to list nothing."""

from __future__ import annotations

import contextlib
import socketserver
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.unit.tls_stub import certificate

_APIS = {3: (1, 1), 9: (1, 7), 16: (0, 0), 17: (0, 1), 18: (0, 0), 36: (0, 0)}
"""Metadata, OffsetFetch, ListGroups, SaslHandshake, ApiVersions, SaslAuthenticate: versions without tagged fields."""
_UNSUPPORTED_VERSION, _SASL_AUTHENTICATION_FAILED = 35, 58


@dataclass
class SaslStub:
    """Where it listens, and what clients have said to log in."""

    port: int
    mechanisms: list[str] = field(default_factory=list)
    messages: list[bytes] = field(default_factory=list)


@contextlib.contextmanager
def serving(folder: Path, mechanism: str, judge: Callable[[bytes], str | None]) -> Iterator[SaslStub]:
    """Serve until the block ends. `judge` says what is wrong with a message, None if it is right."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate(folder))

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(OSError, EOFError, struct.error):
                self.request.do_handshake()
                while True:
                    (size,) = struct.unpack(">i", self._exactly(4))
                    request = self._exactly(size)
                    api, version, correlation = struct.unpack(">hhi", request[:8])
                    answer = struct.pack(">i", correlation) + self._answer(api, version, request)
                    self.wfile.write(struct.pack(">i", len(answer)) + answer)

        def _exactly(self, size: int) -> bytes:
            data = self.rfile.read(size)
            if len(data) < size:
                raise EOFError
            return data

        def _answer(self, api: int, version: int, request: bytes) -> bytes:
            (client,) = struct.unpack(">h", request[8:10])
            body = request[10 + max(client, 0) :]
            if api == 18:
                keys = b"".join(struct.pack(">hhh", key, *versions) for key, versions in _APIS.items())
                return struct.pack(">hi", _UNSUPPORTED_VERSION if version else 0, len(_APIS)) + keys
            if api == 17:
                stub.mechanisms.append(body[2:].decode())
                return struct.pack(">hi", 0, 1) + _string(mechanism)
            if api == 36:
                stub.messages.append(body[4:])
                wrong = judge(body[4:])
                response = b'{"version":"2020_10_22","request-id":"r"}' if mechanism == "AWS_MSK_IAM" else b""
                if wrong is not None:
                    return struct.pack(">h", _SASL_AUTHENTICATION_FAILED) + _string(wrong) + struct.pack(">i", 0)
                return struct.pack(">hh", 0, -1) + struct.pack(">i", len(response)) + response
            if api == 3:
                return struct.pack(">ii", 1, 1) + _string("127.0.0.1") + struct.pack(">ihii", stub.port, -1, 1, 0)
            return struct.pack(">hi", 0, 0)  # ListGroups: none

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        allow_reuse_address = True

    with Server(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        stub = SaslStub(server.server_address[1])
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.005})
        thread.start()
        try:
            yield stub
        finally:
            server.shutdown()
            thread.join()


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data
