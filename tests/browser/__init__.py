"""The pages in a real browser, over a whole installation on real servers."""
