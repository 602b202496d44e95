"""`python -m pipeline COMMAND`."""

import sys

from pipeline.command_line import exit_now, main

if __name__ == "__main__":
    exit_now(main(sys.argv[1:]))
