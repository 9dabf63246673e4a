"""The way in from the command line, for whoever is signed in to this machine.

Exits with 0 when the image is stored, 1 when it is refused, 2 when a file cannot be used.
"""

import argparse
from pathlib import Path

from upload import images


def upload(file: Path, folder: Path) -> Path:
    """Store the file as the type of image that its name declares."""
    content_type = images.SUFFIXES.get(file.suffix.lower())
    with file.open("rb") as source:
        body = source.read(images.MAX_BYTES + 1)  # one byte too many is enough to refuse it
    image = images.parse(body, content_type)
    return images.store(image, folder)


def main() -> None:
    """Upload one file."""
    parser = argparse.ArgumentParser(prog="upload.client", description="Upload an image.")
    parser.add_argument("file", metavar="FILE", type=Path)
    parser.add_argument("--to", metavar="DIR", type=Path, required=True, help="store it here")
    args = parser.parse_args()
    try:
        print(upload(args.file, args.to))
    except images.RefusedError as error:
        parser.exit(1, f"error: {args.file}: {error}\n")
    except OSError as error:
        parser.exit(2, f"error: {error}\n")


if __name__ == "__main__":
    main()
