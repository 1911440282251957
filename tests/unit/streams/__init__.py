"""Tests of what moves records, without moving any."""
