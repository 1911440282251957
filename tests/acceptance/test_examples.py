"""What stands in `examples/` runs as it stands there."""

import shutil
import subprocess
import sys
from pathlib import Path

from tests.patience import PATIENCE_SECONDS
from tests.tree import ROOT


def test_the_example_of_an_agent_passes_its_own_tests(tmp_path: Path) -> None:
    """Run by pytest as it is, in a copy: nothing of ours around it helps."""
    folder = shutil.copytree(ROOT / "examples" / "agent", tmp_path / "agent")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS * 2,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
