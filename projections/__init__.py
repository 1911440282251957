"""The read side: tables derived from the log, disposable and rebuilt at will."""
