"""`python -m mergewise`: the command `mergewise`."""

from mergewise.cli.main import main

if __name__ == "__main__":
    main()
