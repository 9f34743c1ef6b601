"""What scavenging would have given a cluster: the services' own decisions, driven through its past by a virtual clock.

`scenario` is what goes in, `settings` and `policy` are how it is decided, `simulation.simulate` does it, and `result`
is what comes out.
"""
