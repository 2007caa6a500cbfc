"""A client of the HTTP API, for programs that are not beside the database: `ApiClient`."""

from duework.client.asking import ApiError, KeyTaken
from duework.client.remote import ApiClient

__all__ = ["ApiClient", "ApiError", "KeyTaken"]
