"""What a build leaves: the manifest, the card, the accounting and how they are verified."""
