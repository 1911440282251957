"""What agents import: propose a side effect, wait for its outcome."""
