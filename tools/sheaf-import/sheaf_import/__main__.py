"""``python3 -m sheaf_import``."""

from .cli import main

if __name__ == "__main__":
    raise SystemExit(main())
