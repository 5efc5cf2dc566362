"""Running a learning process: in this process, or on a cluster."""
