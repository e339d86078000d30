"""A Connect worker's REST interface, or a token endpoint, on a loopback port, answering from a dictionary."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ROOT = {"version": "4.1.2", "commit": "c", "kafka_cluster_id": "kafka-1"}
EXPANDED = "/connectors?expand=status&expand=info"

Answer = Any
"""JSON; or (status, JSON); or (status, bytes, headers)."""


@dataclass
class Stub:
    """What is answered at each path, and what was asked, with the headers."""

    url: str
    answers: dict[str, Answer | Callable[[int], Answer]]
    requested: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[str] = field(default_factory=list)

    @property
    def host_and_port(self) -> str:
        """As REST would call this worker."""
        return self.url.removeprefix("http://")


def connector(name: str, workers: dict[int | None, str], type: str = "source", tasks: int | None = None) -> Answer:
    """An entry of the expanded listing; `workers` by task as `worker` or `worker STATE`, None is the connector."""

    def status(place: str) -> dict[str, str]:
        worker_id, _, state = place.partition(" ")
        return {"state": state or "RUNNING", "worker_id": worker_id}

    count = sum(task is not None for task in workers) if tasks is None else tasks
    return {
        "info": {
            "name": name,
            "config": {"password": "4711"},
            "tasks": [{"connector": name, "task": number} for number in range(count)],
            "type": type,
        },
        "status": {
            "name": name,
            "connector": status(workers[None]),
            "tasks": [{"id": task, **status(place)} for task, place in workers.items() if task is not None],
            "type": type,
        },
    }


def cluster(connectors: dict[str, Answer]) -> dict[str, Answer]:
    """The answers of a cluster that runs these entries of the expanded listing."""
    return {"/": ROOT, "/connectors": sorted(connectors), EXPANDED: connectors}


@contextlib.contextmanager
def serving(answers: dict[str, Any]) -> Iterator[Stub]:
    """Serve until the block ends. A function among the answers is given how often its path was asked before."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            before = stub.requested.count(self.path)
            stub.requested.append(self.path)
            stub.headers.append(dict(self.headers))
            stub.bodies.append(self.rfile.read(int(self.headers.get("Content-Length", 0))).decode())
            answer = stub.answers.get(self.path, (404, {"error_code": 404, "message": "HTTP 404 Not Found"}))
            answer = answer(before) if callable(answer) else answer
            status, content, *headers = answer if isinstance(answer, tuple) else (200, answer)
            body = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            for name, value in dict(*headers).items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    stub = Stub(f"http://127.0.0.1:{server.server_port}", answers)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.005})
    thread.start()
    try:
        yield stub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
