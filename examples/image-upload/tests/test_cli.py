"""The command-line client, run as a user runs it."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from upload.images import MAX_BYTES

PNG = b"\x89PNG\r\n\x1a\n and the rest of a picture"


class CliTest(unittest.TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.store = self.folder / "store"

    def upload(self, name: str, body: bytes) -> subprocess.CompletedProcess[str]:
        (self.folder / name).write_bytes(body)
        command = [sys.executable, "-m", "upload.client", self.folder / name, "--to", self.store]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def assert_refused(self, name: str, body: bytes, why: str) -> None:
        client = self.upload(name, body)
        self.assertEqual(client.returncode, 1, client.stderr)
        self.assertIn(why, client.stderr)
        self.assertFalse(self.store.exists())

    def test_an_image_is_stored_and_its_path_printed(self) -> None:
        client = self.upload("holiday.PNG", PNG)
        self.assertEqual(client.returncode, 0, client.stderr)
        (stored,) = self.store.iterdir()
        self.assertEqual(client.stdout, f"{stored}\n")
        self.assertEqual(stored.read_bytes(), PNG)

    def test_a_text_file_that_claims_to_be_a_png_is_refused(self) -> None:
        self.assert_refused("notes.png", b"just some text", "declared as image/png")

    def test_an_image_over_the_limit_is_refused(self) -> None:
        self.assert_refused("huge.png", PNG.ljust(MAX_BYTES + 1), "larger than")

    def test_exit_2_when_the_folder_cannot_be_written(self) -> None:
        self.store.touch()
        self.assertEqual(self.upload("holiday.png", PNG).returncode, 2)
