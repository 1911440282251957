"""The programs under examples/, as a stranger runs them first."""

import os
import subprocess
import sys

import pytest

from tests.tree import ROOT

AGENT = ROOT / "examples" / "refund_agent.py"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "Set ACTIONLEDGER_URL"),
        ({"ACTIONLEDGER_URL": "http://127.0.0.1:1"}, "Set ACTIONLEDGER_API_KEY"),
        (
            {"ACTIONLEDGER_URL": "http://127.0.0.1:1", "ACTIONLEDGER_API_KEY": "al_1"},
            "LedgerUnavailable: The ledger gave no answer",
        ),
    ],
)
def test_the_agent_that_cannot_ask_says_why(given: dict[str, str], said: str) -> None:
    """In one line, without a stack."""
    run = subprocess.run(
        [sys.executable, AGENT],
        env={"PATH": os.defpath, **given},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 1
    assert run.stderr.startswith(said)
    assert run.stderr.count("\n") == 1
