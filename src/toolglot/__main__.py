"""`python -m toolglot` is the command line."""

from toolglot.cli import main

if __name__ == "__main__":
    main()
