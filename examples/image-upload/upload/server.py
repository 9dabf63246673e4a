"""The way in over HTTP: POST /images with the token of a signed-in user, GET /images/NAME."""

import argparse
import secrets
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingTCPServer
from typing import Any

from upload import images

TEXT = {"Content-Type": "text/plain"}


class Server(ThreadingTCPServer):
    """Serves the images in one folder, on this machine only. `users` maps tokens to names."""

    allow_reuse_address = True

    def __init__(self, port: int, folder: Path, users: dict[str, str]) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.folder = folder
        self.users = users

    def close_request(self, request: Any) -> None:
        """Let a client that is still sending read its answer: closing at once may discard it."""
        with suppress(OSError):
            while request.recv(65536):
                pass
        super().close_request(request)


class Handler(BaseHTTPRequestHandler):
    """Answers one request and closes the connection."""

    server: Server
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_GET(self) -> None:
        """Send an image to anyone who knows its name."""
        image = images.load(self.path.removeprefix("/images/"), self.server.folder)
        if image is None:
            return self.answer(404, b"no such image\n")
        self.answer(200, image.body, {"Content-Type": image.content_type})

    def do_POST(self) -> None:
        """Store an image for a signed-in user, or say why not."""
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        user = self.server.users.get(token)
        length = self.headers.get("Content-Length", "")
        if self.path != "/images":
            self.answer(404, b"images go to /images\n")
        elif user is None:
            self.answer(401, b"sign in first\n", TEXT | {"WWW-Authenticate": "Bearer"})
        elif not length.isdecimal():
            self.answer(411, b"no Content-Length\n")
        elif int(length) > images.MAX_BYTES:
            self.answer(413, b"the image is too large\n")
        else:
            self.upload(int(length), user)

    def upload(self, length: int, user: str) -> None:
        """Store the image in the body and say where it is."""
        body = self.rfile.read(length)
        if len(body) < length:
            return self.answer(400, b"the body ended early\n")
        try:
            image = images.parse(body, self.headers.get_content_type())
        except images.RefusedError as error:
            return self.answer(415, f"{error}\n".encode())
        path = f"/images/{images.store(image, self.server.folder).name}"
        self.log_message("%s uploaded %s", user, path)
        self.answer(201, f"{path}\n".encode(), TEXT | {"Location": path})

    def answer(self, status: int, body: bytes, headers: dict[str, str] = TEXT) -> None:
        """Send a whole response. Browsers are told not to guess another type."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(prog="upload.server", description="Accept images over HTTP.")
    parser.add_argument("--to", metavar="DIR", type=Path, required=True, help="store them here")
    parser.add_argument("--user", metavar="NAME", required=True, help="sign in this user")
    parser.add_argument("--port", type=int, default=8000)
    args = parser.parse_args()
    token = secrets.token_urlsafe()
    with suppress(KeyboardInterrupt), Server(args.port, args.to, {token: args.user}) as server:
        print(f"port {server.server_address[1]}, token of {args.user}: {token}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
