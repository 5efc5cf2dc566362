"""A run from the first round to the last: settings, loop, tests, files."""
