"""One command, one table: what the real processes do per second."""
