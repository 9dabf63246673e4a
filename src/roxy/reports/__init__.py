"""One renderer for each format: values in, text out."""
