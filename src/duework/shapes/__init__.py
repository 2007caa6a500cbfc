"""Shapes of work: each a small module that moves due times inside kernel transactions."""
