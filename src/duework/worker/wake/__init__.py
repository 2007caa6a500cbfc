"""How a sleeping worker learns that there is something to do."""
