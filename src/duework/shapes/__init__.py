"""Shapes of work: each moves due times inside the kernel's transactions, and has no loop of its own.

`SHAPES` are those that every App has; `app.adopt` adds others.
"""

from duework.shapes import (
    batches,
    blobs,
    chains,
    deliveries,
    labels,
    metrics,
    objects,
    outboxes,
    paces,
    schedules,
)

SHAPES = tuple(
    each.SHAPE
    for each in (
        batches,
        chains,
        schedules,
        deliveries,
        outboxes,
        paces,
        objects,
        blobs,
        labels,
        metrics,
    )
)
