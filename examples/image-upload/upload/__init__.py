"""Upload images, over HTTP or from the command line."""
