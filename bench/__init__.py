"""How fast it is, beside the bare databases and what else one could use; see `run.py`.

Nothing is imported here: adapters of other libraries run in virtual environments of their own, where
neither Duework nor its dependencies are installed.
"""
