"""Tests of the log that need no broker."""
