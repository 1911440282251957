"""The product as a user meets it, and the public failure cases."""
