"""Schedules: rows that fire a task and re-arm themselves."""

from duework.shapes.shape import Shape

SHAPE = Shape("schedules", __name__, owner="schedule")
