"""Scenarios: each module asks one question and measures the answer once when it is told to.

A scenario has a `QUESTION`, its `FIGURES`, and `sample(bed)`, which returns one value for each figure.
What is timed runs in a process of its own (`bed.child`, `bed.worker`), never beside the progress bar.
"""
