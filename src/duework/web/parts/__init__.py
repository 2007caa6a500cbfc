"""The web faces of parts: what `face.py` declares is served here."""
