"""Pages of the engine itself: one file each, found by its name."""
