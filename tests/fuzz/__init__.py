"""Fuzzing: every parser of what strangers write, fed with mutated genuine inputs."""
