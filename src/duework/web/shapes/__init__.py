"""Pages of the engine's own shapes: a file for each, found by the shape's name."""
