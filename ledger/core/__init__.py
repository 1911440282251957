"""The pure core: ids, events, state and decisions, without a clock, randomness or I/O."""
