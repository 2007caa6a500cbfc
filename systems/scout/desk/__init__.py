"""What people see of scout and do with it: look, follow, star, share, export, steer, check."""
