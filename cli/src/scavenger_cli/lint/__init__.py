"""What `lint` judges by: the generated CRDs, their CEL rules, and the webhook's rules."""
