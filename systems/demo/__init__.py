"""The demo: five systems on twins, disturbed on purpose, and a score that the receivers keep."""
