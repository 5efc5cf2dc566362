"""Training on a Ray cluster; nothing here is imported unless asked for."""
