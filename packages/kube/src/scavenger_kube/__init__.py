"""The Kubernetes API: kinds, errors, kubeconfig and credentials, an asyncio and a blocking client."""
