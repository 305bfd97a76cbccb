"""A web server that answers as it is told, also badly."""

import hashlib
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

DATA = bytes(range(256)) * 1000


OTHER = DATA[::-1]


SUM = ("sha256", hashlib.sha256(DATA).hexdigest())


class Server(ThreadingHTTPServer):
    """Answers a path by the functions in `answers[path]`, one a request, the last for all that follow."""

    daemon_threads = True
    block_on_close = False

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers, self.seen, self.released = {}, [], threading.Event()

    def url(self, path="/data.bin"):
        return f"http://127.0.0.1:{self.server_port}{path}"

    def gives(self, *answers, path="/data.bin"):
        self.answers[path] = list(answers)
        return self.url(path)

    def ranges(self):
        return [headers.get("Range") for _, headers in self.seen]

    def handle_error(self, request, client_address):
        pass  # a client that hangs up is what these tests are about


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"

    def do_GET(self):
        self.server.seen.append((self.path, self.headers))
        answers = self.server.answers.get(self.path, [status(404)])
        (answers.pop(0) if len(answers) > 1 else answers[0])(self)

    def head(self, code, **headers):
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()

    def log_message(self, *args):
        pass


def asked_from(handler):
    return int(handler.headers.get("Range", "bytes=0-")[6:-1])


def whole(data=DATA, tag='"1"', cut=None, **extra):
    """A good server: Range, If-Range, ETag. With `cut` it hangs up after so many bytes of the body."""

    def answer(handler):
        start, condition = asked_from(handler), handler.headers.get("If-Range")
        if start and condition in (None, tag):
            if start >= len(data):
                return handler.head(416, Content_Range=f"bytes */{len(data)}")
            extra["Content_Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
            handler.head(206, ETag=tag, Content_Length=len(data) - start, **extra)
        else:
            start = 0
            handler.head(200, ETag=tag, Content_Length=len(data), **extra)
        return handler.wfile.write(data[start:][:cut])

    return answer


def plain(body=DATA, code=200, **headers):
    def answer(handler):
        handler.head(code, **headers)
        handler.wfile.write(body)

    return answer


def status(code, **headers):
    return plain(b"", code, **headers)


def stalling(handler):
    handler.head(200, Content_Length=len(DATA), ETag='"1"')
    handler.wfile.write(DATA[:1000])
    handler.server.released.wait(60)


def endless(handler):
    handler.head(200)
    with suppress(OSError):
        while True:
            handler.wfile.write(DATA)


def dripping(raw, then=b""):
    """A server that sends `raw` as it is, then `then` again and again: a byte at a time where it is short."""

    def answer(handler):
        with suppress(OSError):
            handler.wfile.write(raw)
            while not handler.server.released.wait(0.02 if len(then) == 1 else 0):
                handler.wfile.write(then)

    return answer


LENGTH = f"Content-Length: {len(DATA)}\r\n\r\n".encode()


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
