"""Optional: a resting worker is handed its next job with the enqueue."""
