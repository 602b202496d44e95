"""What people see of a command: the terminal, reports, pages, and messages of what went wrong."""
