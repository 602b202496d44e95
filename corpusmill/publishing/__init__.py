"""What gives a finished data set away: pushing it to the Hugging Face hub."""
