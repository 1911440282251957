"""The HTTP door: intents in, answers out, webhooks in."""
