"""Signatures of people: what proves that a person said what the log keeps."""
