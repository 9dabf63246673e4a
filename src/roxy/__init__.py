"""Roxy decides whether a coding agent's work is done, from checks it ran itself."""

__version__ = "0.1.0"
