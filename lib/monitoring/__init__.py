"""What operators watch: alerts, metrics, the doctor."""
