"""The interop check: other engines read what Tidelake wrote, and the other way round."""
