"""Durable objects: state with a key, a private database and one alarm."""
