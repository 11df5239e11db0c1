"""metrana beside what else a user would pick: the same work, in turns, in the same run."""
