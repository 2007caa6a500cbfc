"""One adapter for each library that is measured beside Duework; see `protocol.py`."""
