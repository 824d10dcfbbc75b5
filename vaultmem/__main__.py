"""`python -m vaultmem` is the command line."""

import sys

from vaultmem.surfaces.cli import main

if __name__ == "__main__":
    sys.exit(main())
