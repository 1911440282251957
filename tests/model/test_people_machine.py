"""The core among people, against the plain model: some orders on every run; many more by
`python -m tests.model`.
"""

import pytest
from hypothesis import settings

from tests.model.people_machine import Machine

TestPeople = Machine.TestCase
TestPeople.settings = settings(
    derandomize=True, deadline=None, max_examples=500, stateful_step_count=40
)
pytestmark = [pytest.mark.law(law) for law in ("S4", "S5", "S6", "S7", "S17")]
