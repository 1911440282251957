"""The ground: what was asked, decided and recorded. Everything else stands on it."""
