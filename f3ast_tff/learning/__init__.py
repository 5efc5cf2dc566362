"""The learning process on TFF: client work, aggregation, server step."""
