"""What surrounds an attempt: context managers around it, and resources that outlive it."""
