"""The machine below: its clock, which may be set, and its processes, which may die."""
