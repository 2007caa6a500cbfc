"""Shapes of work: each moves due times inside the kernel's transactions, and has no loop of its own.

`SHAPES` are those that every App has; `app.adopt` adds others.
"""

from duework.shapes import (
    batches,
    blobs,
    budgets,
    chains,
    deliveries,
    events,
    labels,
    metrics,
    objects,
    outboxes,
    paces,
    schedules,
    steps,
    sweeps,
)

SHAPES = tuple(
    each.SHAPE
    for each in (
        *(batches, chains, schedules, deliveries, outboxes, paces, objects),
        *(steps, budgets, events, sweeps, blobs, labels, metrics),
    )
)
