"""Processes on a real broker and a real database."""
