"""The command line: one file for each command; `main.py` is the boundary where all of them end."""
