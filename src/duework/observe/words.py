"""What lists say of a job in a few words, alike in the terminal and on pages."""

from __future__ import annotations


def tally(failures: int, crashes: int) -> str:
    """The attempts that count against a job; a crash is none of its failures, and is named."""
    if not crashes:
        return f"{failures:,}"
    said = f"{crashes:,} {'crash' if crashes == 1 else 'crashes'}"
    return f"{failures:,} + {said}" if failures else said
