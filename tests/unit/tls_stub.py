"""A certificate for 127.0.0.1, and a Connect worker behind it."""

from __future__ import annotations

import contextlib
import json
import ssl
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from tests.unit.connect_stub import ROOT


def certificate(folder: Path) -> tuple[str, str]:
    """A certificate for 127.0.0.1 and its key: `stub.pem` and `stub-key.pem`."""
    key, cert = folder / "stub-key.pem", folder / "stub.pem"
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    whose = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    made = ["openssl", "req", "-x509", *kind, "-keyout", str(key), "-out", str(cert), *whose]
    subprocess.run(made, check=True, capture_output=True)
    return str(cert), str(key)


@contextlib.contextmanager
def guarded(folder: Path, *, clients: bool) -> Iterator[str]:
    """The URL of a worker that answers `ROOT`; with `clients` only to who shows that same certificate."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(ROOT).encode())

        def log_message(self, *_: Any) -> None:
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None:
            pass

    cert, key = certificate(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    if clients:
        context.load_verify_locations(cert)
        context.verify_mode = ssl.CERT_REQUIRED
    server = Server(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.005}, daemon=True).start()
    try:
        yield f"https://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
