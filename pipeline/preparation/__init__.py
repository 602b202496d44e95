"""What is found out and checked before a job is submitted."""
