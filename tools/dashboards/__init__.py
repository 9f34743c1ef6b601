"""What is said about metrics: their reference, the dashboards and the alerts, all held to the code that shows them."""
