"""The embedded local cluster: a real Kubernetes built from Go modules."""
