"""The same rows for programs: JSON under `/api/v1`, described by an OpenAPI document made from the types."""
