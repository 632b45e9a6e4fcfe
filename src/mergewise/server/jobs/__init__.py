"""The jobs of collections: what each kind does, the progress of running jobs, their runner and its process."""
