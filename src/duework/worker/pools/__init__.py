"""Where handlers run: the event loop and threads."""
