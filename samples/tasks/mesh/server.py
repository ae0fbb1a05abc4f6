"""A server for the tasks of docs/tasks: HTTP at PORT, and lines over TCP at TCP_PORT, if they are set.

It answers with VERSION. /status/N answers with status N, /delay/N after N seconds, /headers with the headers of the
request. /flaky fails with status 500 for two of three requests. /count is the number of requests to /hello. After
/break, /hello fails with status 500, until /repair.
"""

import os
import socketserver
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

VERSION = os.environ["VERSION"]


class State:
    """Counters of all connections."""

    lock = threading.Lock()
    hello = 0
    flaky = 0
    broken = False


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        status, text = self.answer(self.path.split("?")[0].strip("/").split("/"))
        body = (text + "\n").encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def answer(self, path):
        with State.lock:
            if path[0] == "hello":
                State.hello += 1
                return (500, "broken " + VERSION) if State.broken else (200, "hello from " + VERSION)
            if path[0] == "flaky":
                State.flaky += 1
                return (200, "worked") if State.flaky % 3 == 0 else (500, "failed")
            if path[0] == "count":
                return 200, f"{State.hello} requests"
            if path[0] in ("break", "repair"):
                State.broken = path[0] == "break"
                return 200, "broken" if State.broken else "repaired"
        if path[0] == "status":
            return int(path[1]), "status " + path[1]
        if path[0] == "delay":
            time.sleep(float(path[1]))
            return 200, f"after {path[1]} s"
        if path[0] == "headers":
            return 200, "\n".join(sorted(f"{name.lower()}: {value}" for name, value in self.headers.items()))
        return 404, "not found"


class LineHandler(socketserver.StreamRequestHandler):
    """Answers one line, and closes the connection."""

    def handle(self):
        line = self.rfile.readline().decode().strip()
        self.wfile.write(f"{VERSION} got {line}\n".encode())


class LineServer(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


if "TCP_PORT" in os.environ:
    lines = LineServer(("", int(os.environ["TCP_PORT"])), LineHandler)
    threading.Thread(target=lines.serve_forever, daemon=True).start()
ThreadingHTTPServer(("", int(os.environ["PORT"])), Handler).serve_forever()
