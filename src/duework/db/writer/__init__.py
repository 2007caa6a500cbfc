"""Group commit: one writer for each process, many callers, one fsync."""
