"""Pages of the engine's own shapes: a file for each with a list `PAGES`, found by its name."""
