"""Breaking the lab on purpose, with proof that it broke, and what a household lost meanwhile.

model      a scenario as data: a fault, how long, what must come of it (pure)
actions    what can be done to a machine, the host or the router, as data that survives in a file
faults     the faults, each a few actions, their undoing, and their proofs
proofs     evidence that a fault had its effect, gathered while it is in force
stage      the lab as the actions and proofs reach it
guardian   undoes a fault when the process that made it dies
route_watch  runs on the router: who is announced, from when on
judge      from a run's records to ok, void or failed (pure)
runner     the order of things: calm, fault, hold, revert, calm
catalog/   one short file per scenario
"""
