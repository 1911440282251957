"""Operating trouble: what the surroundings did to us, told so that a person can act on it.

Expected refusals are values, never exceptions of this tree. The tree, each class in the module of
its part:

    LedgerError            message, hint
    └── one class for every kind of trouble that is handled differently

Callers match on the class and its attributes, never on the text.
"""


class LedgerError(Exception):
    """Trouble with a message that says what happened and a hint that says what to do about it."""

    def __init__(self, message: str, *, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}"
