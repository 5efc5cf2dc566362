"""The paper's theory: the achievable region, best rates, fixed policies."""
