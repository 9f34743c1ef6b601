"""What events keep current: what is known of the cluster between two cycles."""
