"""The `simulated` provider: a real HTTP server with a book on disk, and the adapter that uses it.

It ships with the product, for demonstrations and for every test that needs an outside world that
fails on purpose. `adapter` talks to it only over HTTP; the server imports nothing of the adapter.
"""
