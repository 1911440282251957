"""Tests of signatures: what proves that a person said something, and what does not."""
