"""What scout costs: a ledger of what was used, ceilings, figures, and a price list."""
