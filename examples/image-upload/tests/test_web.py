"""The HTTP server, asked over a real connection."""

import tempfile
import threading
import unittest
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from unittest.mock import patch

from upload.images import MAX_BYTES
from upload.server import Handler, Server

PNG = b"\x89PNG\r\n\x1a\n and the rest of a picture"
UNSIGNED = {"Content-Type": "image/png"}
SIGNED = UNSIGNED | {"Authorization": "Bearer token-of-ana"}


class WebTest(unittest.TestCase):
    def setUp(self) -> None:
        self.enterContext(patch.object(Handler, "log_message"))
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.server = self.enterContext(Server(0, self.folder, {"token-of-ana": "ana"}))
        threading.Thread(target=self.server.serve_forever, args=(0.01,)).start()
        self.addCleanup(self.server.shutdown)

    def ask(self, method: str, path: str, headers: dict[str, str], body: bytes) -> HTTPResponse:
        connection = HTTPConnection("127.0.0.1", self.server.server_address[1], timeout=10)
        connection.request(method, path, body, headers)
        return self.enterContext(connection.getresponse())

    def assert_refused(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.assertEqual(self.ask("POST", "/images", headers, body).status, status)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_a_signed_in_user_uploads_an_image_that_anyone_can_get(self) -> None:
        created = self.ask("POST", "/images", SIGNED, PNG)
        self.assertEqual(created.status, 201)
        found = self.ask("GET", created.headers["Location"], {}, b"")
        self.assertEqual(found.headers["Content-Type"], "image/png")
        self.assertEqual(found.read(), PNG)

    def test_401_without_the_token_of_a_signed_in_user(self) -> None:
        self.assert_refused(401, UNSIGNED, PNG)
        self.assert_refused(401, UNSIGNED | {"Authorization": "Bearer token-of-nobody"}, PNG)

    def test_413_for_a_body_over_the_limit_before_it_is_sent(self) -> None:
        self.assert_refused(413, SIGNED | {"Content-Length": str(MAX_BYTES + 1)}, b"")

    def test_415_for_bytes_that_are_not_the_declared_image(self) -> None:
        self.assert_refused(415, SIGNED, b"just some text")
        self.assert_refused(415, SIGNED | {"Content-Type": "image/gif"}, PNG)

    def test_404_for_a_name_that_no_image_has(self) -> None:
        (self.folder / "secret").touch()
        self.assertEqual(self.ask("GET", "/images/secret", {}, b"").status, 404)
