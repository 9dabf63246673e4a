"""What an image is and how one is stored: the rules that every way in shares."""

import hashlib
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

MAX_BYTES = 5 * 1024 * 1024
SIGNATURES = {
    "image/gif": (b"GIF87a", b"GIF89a"),
    "image/jpeg": (b"\xff\xd8\xff",),
    "image/png": (b"\x89PNG\r\n\x1a\n",),
}
SUFFIXES = {".gif": "image/gif", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".png": "image/png"}


class RefusedError(Exception):
    """These bytes are not stored; the message says why."""


@dataclass(frozen=True)
class Image:
    """The bytes and content type of an image. Only `parse` makes one from unchecked bytes."""

    body: bytes
    content_type: str


def parse(body: bytes, content_type: str | None) -> Image:
    """Return the image in these bytes, if they begin as the declared type of image does."""
    if len(body) > MAX_BYTES:
        raise RefusedError(f"larger than {MAX_BYTES} bytes")
    if content_type not in SIGNATURES:
        raise RefusedError("only GIF, JPEG and PNG images are accepted")
    if not body.startswith(SIGNATURES[content_type]):
        raise RefusedError(f"declared as {content_type}, but the bytes are not")
    return Image(body, content_type)


def store(image: Image, folder: Path) -> Path:
    """Write the image into the folder and return its path. Readers see all of it or nothing."""
    # Named after its bytes: nothing that an uploader says becomes part of a path.
    name = hashlib.sha256(image.body).hexdigest() + image.content_type.replace("image/", ".")
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / f".{secrets.token_hex()}.part"
    try:
        part.write_bytes(image.body)
        return part.replace(folder / name)
    finally:
        part.unlink(missing_ok=True)


def load(name: str, folder: Path) -> Image | None:
    """Return the image stored under this name. A name that `store` never makes has none."""
    path = folder / name
    if not re.fullmatch(r"[0-9a-f]{64}\.(gif|jpeg|png)", name) or not path.is_file():
        return None
    return Image(path.read_bytes(), SUFFIXES[path.suffix])
