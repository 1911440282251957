"""The adapter `http`: any JSON API, described in one TOML file that an operator writes.

A description holds paths and tables, no logic. `parsing` reads it, `performer`, `finder` and
`mapping` do what it says; `example.toml` is a whole one. Built by the registry.
"""
