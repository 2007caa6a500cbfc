"""SQLite: the database, its file and its log."""
