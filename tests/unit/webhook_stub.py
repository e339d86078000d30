"""A webhook on this machine, which keeps the messages that it accepts."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any


class Receiver:
    """A webhook on this machine. `status` is what it answers."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.status = 200
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                text = self.rfile.read(int(self.headers["Content-Length"]))
                assert self.headers["Content-Type"] == "application/json"
                if receiver.status == 200:
                    receiver.messages.append(json.loads(text))
                self.send_response(receiver.status)
                self.send_header("Location", "/other")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Logs nothing."""

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/services/SECRET"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
