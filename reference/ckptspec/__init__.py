"""The executable specification of training-checkpoint files."""
