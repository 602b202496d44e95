"""How a run survives faults: the journal, the claim and the commit of its files."""
