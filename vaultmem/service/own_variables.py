"""The variables that vaultmem writes into an entry of its own, where they are set."""

from vaultmem.service.settings import SETTINGS

# Where the index and the state lie, and the server of models.
FOLDERS = ("XDG_CACHE_HOME", "XDG_STATE_HOME")
OLLAMA_HOST = "OLLAMA_HOST"
STATE_DIR = "VAULTMEM_STATE_DIR"

OWN_VARIABLES = frozenset(
    {setting.variable for setting in SETTINGS} | {STATE_DIR, OLLAMA_HOST, *FOLDERS}
)
