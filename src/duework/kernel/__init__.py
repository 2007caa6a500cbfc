"""The one idea: a job is a row with a due time. Start with `job.py`, `jobs.sql`, `enqueue.py`."""
