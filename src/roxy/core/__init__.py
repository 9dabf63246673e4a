"""What roxy decides and does. Nothing here prints, and nothing here imports click or rich."""
