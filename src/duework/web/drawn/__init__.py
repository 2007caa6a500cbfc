"""Drawings of pages: strips of fires, controllers, quotas."""
