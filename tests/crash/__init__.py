"""Processes killed at named points, and what must hold after."""
