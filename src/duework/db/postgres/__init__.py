"""PostgreSQL: the database, its connections and its notifications."""
