"""The doors: HTTP, command line, settings and the wiring of every process."""
