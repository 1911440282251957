"""Real Kafka and Postgres on loopback, without Docker and without root."""
