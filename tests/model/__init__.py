"""The code against a small independent model of it."""
