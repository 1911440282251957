"""Propose, wait and follow straight on Kafka, for trusted services and the gateway."""
