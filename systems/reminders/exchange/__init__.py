"""Reminders from elsewhere and to elsewhere: tables (CSV) and calendars (ICS)."""

from systems.reminders.exchange.calendars import to_ics
from systems.reminders.exchange.entries import from_ics
from systems.reminders.exchange.rows import Brought, Incoming, bring, outgoing
from systems.reminders.exchange.sheets import from_csv, to_csv

__all__ = ["Brought", "Incoming", "bring", "from_csv", "from_ics", "outgoing", "to_csv", "to_ics"]
