"""From text to findings: secrets and hidden characters. Knows neither files nor Markdown."""
