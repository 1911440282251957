"""Tests of what the pages are made of, without a browser or a server."""
