"""What `lint` judges by: the generated definitions of the API, their CEL rules, and the webhook's rules."""
