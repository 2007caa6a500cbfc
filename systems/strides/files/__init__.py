"""Recordings as files: FIT, TCX, GPX and Strava's export archive, a way in without the API."""
