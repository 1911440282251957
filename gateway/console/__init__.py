"""The pages for people: what waits, why it is here, and deciding it with a passkey."""
