"""What an installation needs for a load: a model of what each part costs, and what follows."""
