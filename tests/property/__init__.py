"""Laws that hold for all inputs, searched by hypothesis."""
