"""Inspection of compiled functions: formula, source, HLO, cost, and a page that shows all of it."""
