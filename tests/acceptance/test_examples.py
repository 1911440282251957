"""What stands in `examples/` runs as it stands there."""

import subprocess
import sys

from tests.patience import PATIENCE_SECONDS
from tests.tree import ROOT


def test_the_example_of_an_agent_passes_its_own_tests() -> None:
    """Run by pytest from its own folder, as whoever copies it would."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto"],
        cwd=ROOT / "examples" / "agent",
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS * 2,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
