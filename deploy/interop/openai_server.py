"""Plays a server that speaks OpenAI's protocol, for the matrix alone: openai_server.py PORT SCRIPT

The script has the steps of `ocr-proxy sim` that the matrix uses: a status, ok or lose, with delay=Ns, times=N and header=Retry-After:N.
POST /v1/chat/completions reads the image of the first message; /__sim/stats tells the pages that would have been charged.
"""

import base64
import json
import struct
import sys
import threading
import time
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def steps(path: str) -> list[tuple[str, float, str]]:
    """What each of the first requests meets: a word, a delay in seconds, a Retry-After."""
    found = []
    with open(path, encoding="utf-8") as file:
        for line in filter(str.strip, file):
            word, *rest = line.split()
            options = dict(option.split("=", 1) for option in rest)
            delay = float(options.get("delay", "0s").removesuffix("s"))
            hint = options.get("header", "").removeprefix("Retry-After:")
            found += [(word, delay, hint)] * int(options.get("times", "1"))
    return found


def whole(image: bytes) -> bool:
    """Reports whether the bytes are a PNG whose chunks are all there and unharmed."""
    if not image.startswith(b"\x89PNG\r\n\x1a\n"):
        return False
    at = 8
    while at + 12 <= len(image):
        size, kind = struct.unpack(">I4s", image[at : at + 8])
        end = at + 12 + size
        if end > len(image) or zlib.crc32(image[at + 4 : end - 4]) != struct.unpack(">I", image[end - 4 : end])[0]:
            return False
        if kind == b"IEND":
            return True
        at = end
    return False


class Server(ThreadingHTTPServer):
    def __init__(self, port: int, script: str) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.lock = threading.Lock()
        self.script = steps(script)
        self.stats = {"kind": "openai", "requests": 0, "pages": 0, "jobs": 0}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        with self.server.lock:
            self.tell(200, self.server.stats)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.stats["requests"] += 1
            word, delay, hint = self.server.script.pop(0) if self.server.script else ("ok", 0.0, "")
        time.sleep(delay)
        if word.isdigit():
            code = {"429": "rate_limit_exceeded"}.get(word, "server_error")
            self.tell(int(word), {"error": {"message": "The script says so.", "type": code, "code": code}}, hint)
            return
        url = next(part["image_url"]["url"] for part in body["messages"][0]["content"] if part["type"] == "image_url")
        if not whole(base64.b64decode(url.partition(",")[2])):
            message = "You uploaded an unsupported image."
            self.tell(400, {"error": {"message": message, "type": "invalid_request_error", "code": "invalid_image_format"}})
            return
        with self.server.lock:
            self.server.stats["pages"] += 1
        if word == "lose":
            self.close_connection = True
            return
        message = {"role": "assistant", "content": "A simulated page."}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        self.tell(200, {"id": "c", "object": "chat.completion", "created": 0, "model": body["model"], "choices": [choice]})

    def tell(self, status: int, body: dict, hint: str = "") -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        if hint:
            self.send_header("Retry-After", hint)
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


if __name__ == "__main__":
    Server(int(sys.argv[1]), sys.argv[2]).serve_forever()
