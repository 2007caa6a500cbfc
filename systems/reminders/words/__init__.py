"""Reminders as people say them: `stretch every weekday at 9:00 in Europe/Zurich`.

The grammar is written down in GRAMMAR.md beside this, with what it takes and what it refuses; a test reads
those examples from there.
"""

from systems.reminders.words.line import Said, read_line, read_when

__all__ = ["Said", "read_line", "read_when"]
