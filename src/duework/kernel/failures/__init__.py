"""What becomes of attempts that did not end well: retried, put off, suspected; and how that is told."""
