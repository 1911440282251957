"""Wiring: one module per process builds it from settings, and one way to live and to end."""
