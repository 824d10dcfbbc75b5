"""Pure values: what a note, a passage, a delta, a query and a hit are. No files, no clock."""
