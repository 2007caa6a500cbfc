"""What the engine survives, shown exhaustively: `make proof` writes PROOF.md from these sections."""
