"""Other ways in than HTTP: SMTP, and Django's mail."""
