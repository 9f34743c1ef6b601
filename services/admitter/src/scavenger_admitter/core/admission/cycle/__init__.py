"""One admission cycle over one snapshot."""
