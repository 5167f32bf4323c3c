"""What compile() gives: a function of the user, with its derivatives, its sources and the story of its traces."""
