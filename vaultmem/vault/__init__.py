"""Files and Obsidian's rules: the only code that knows either."""
