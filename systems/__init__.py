"""The systems that are built on Duework, and the twins they talk to; run from a checkout."""
