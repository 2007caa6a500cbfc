"""Whether all is well: counts, fitness for work, the invariants."""
