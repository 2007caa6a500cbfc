"""Races as people see them: lists, records, an export, and what they add by hand."""
