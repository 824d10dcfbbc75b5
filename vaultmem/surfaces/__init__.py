"""Translation only: what a person types, and what they read."""
