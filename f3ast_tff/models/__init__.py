"""Models, one module each."""
