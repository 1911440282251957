"""Bytes of released formats, read back for ever."""
