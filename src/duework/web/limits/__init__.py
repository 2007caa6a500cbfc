"""How often somebody may ask: counted for each client address and each token, before a page is asked."""
