"""vaultmem makes a folder of Markdown notes the memory of a person and their assistants."""

__version__ = "0.1.0"
