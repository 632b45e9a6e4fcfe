"""The native API below `/api/v1`."""
