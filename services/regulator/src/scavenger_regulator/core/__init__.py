"""What the regulator decides. Pure: no clock, no event loop, no client, no log; time arrives as a value."""
