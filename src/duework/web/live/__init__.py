"""Pages that change by themselves: what an open page shows, pushed to all who look at it."""
