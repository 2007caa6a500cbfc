"""The second stage: everything that a lookup says of an app, as fast as Apple lets us."""
