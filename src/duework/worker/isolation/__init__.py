"""A process for each job that asked for one."""
