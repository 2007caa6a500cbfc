"""Reminders: one-shot and recurring, by e-mail and by signed webhooks.

duework run systems.reminders:app
"""

from duework import App
from systems.reminders import cli, fire, pages, routes
from systems.reminders.part import part
from systems.reminders.promises import promises
from systems.reminders.seed import seed

app = App()
app.include(part)

__all__ = ["app", "cli", "fire", "pages", "part", "promises", "routes", "seed"]
