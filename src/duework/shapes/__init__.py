"""Shapes of work: each moves due times inside the kernel's transactions, and has no loop of its own."""
