"""The Kafka log: topics, envelope, append and read. Nobody else knows the bytes."""
