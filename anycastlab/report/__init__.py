"""From the files of runs to what a person reads: numbers, tables, timelines, one page.

run          the run directory: run.json, queries, announcements
statistics   pure: what was lost, felt, withdrawn, shared; over repeats
reference    what the reference write-up published
tables       terminal, Markdown, CSV, JSON
timeline     one run as SVG
html         everything as one page
"""
