"""Those who carry what channels send."""
