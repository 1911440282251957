"""Finding out: what really happened to an action whose answer was lost."""
