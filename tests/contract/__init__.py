"""What a port promises, asked of every adapter of it."""
