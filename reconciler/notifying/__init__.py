"""Telling people that something waits for them: whom, in which words, and until it has arrived."""
