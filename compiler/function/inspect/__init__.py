"""What a compiled function shows of itself: formula, source, HLO, cost, and a page about all of it."""
