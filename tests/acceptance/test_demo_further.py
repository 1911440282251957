"""The demonstration in full, its other half: every claim of every chapter held."""

from pathlib import Path

import pytest

from tests.acceptance.chapters import SECOND_FILE, holds

pytestmark = pytest.mark.servers


@pytest.mark.parametrize("chapter", SECOND_FILE)
def test_a_further_chapter_holds(tmp_path: Path, chapter: str) -> None:
    """Who may decide, shown on the real processes and held against log, book and tables."""
    holds(tmp_path, chapter)
