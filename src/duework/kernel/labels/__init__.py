"""What jobs carry beside their arguments."""
