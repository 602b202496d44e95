"""What people look at: figures, decoded examples, estimates, a corpus in numbers."""
