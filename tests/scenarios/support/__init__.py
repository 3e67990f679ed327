"""What the runner of the scenarios is made of. README.md says what a scenario may say."""
