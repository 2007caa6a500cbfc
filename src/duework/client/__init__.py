"""A client of the HTTP API, for programs that are not beside the database: `ApiClient`."""

from duework.client.remote import ApiClient, ApiError, KeyTaken

__all__ = ["ApiClient", "ApiError", "KeyTaken"]
