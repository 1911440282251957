"""The adapter `kafka`: an outbox, described in one TOML file.

One record in a topic of yours asks for the effect; whoever consumes it owns the boundary. A record
that is written twice is one effect where the consumer keeps the keys, as the one in `consumer` does
in the table of the adapter `postgres`, which can then be searched as well. Built by `kinds`.
"""
