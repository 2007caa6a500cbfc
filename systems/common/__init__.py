"""What several systems share and the package does not offer (yet)."""
