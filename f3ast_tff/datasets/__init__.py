"""Federated data sets, one module each."""
