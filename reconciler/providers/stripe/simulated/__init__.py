"""A simulated Stripe: a real HTTP server that answers as Stripe is documented to."""
