"""The five systems in one App: `duework run systems.app:app`, `duework web systems.app:app`.

Each is a Part and knows nothing of the others; together they share one database, one set of workers
and one side bar.
"""

from __future__ import annotations

from duework import App
from systems.mailroom import part as mailroom
from systems.reminders import part as reminders
from systems.scout import part as scout
from systems.streaks import part as streaks
from systems.strides import part as strides

app = App()
for part in (streaks, mailroom, reminders, strides, scout):
    app.include(part)
