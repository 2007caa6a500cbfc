"""Schedules: rows that fire a task and re-arm themselves."""
