"""Pages of the shapes: one file each, found by the shape's name; each has a list `PAGES`."""
