"""Tests of the ledger; every folder is one rung of the ladder."""
