"""From a question to ranked hits: query, channels, fusion, snippets."""
