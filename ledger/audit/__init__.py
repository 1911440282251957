"""Replay of the log and the checks that an auditor runs on it."""
