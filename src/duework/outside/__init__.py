"""The world beyond the database: HTTP clients, signed webhooks, sealed secrets."""
