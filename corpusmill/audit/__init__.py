"""Token files of any tool, read and judged."""
