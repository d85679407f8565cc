"""A run of pyinfra as a person sees it: a process of its own tells what it does, this one shows it.

tell.py      what operations say about themselves, also under plain pyinfra
messages.py  what travels from the working process to the showing one
inside.py    the working process: pyinfra with our deploy files (`python -m anycastlab.run`)
outside.py   the showing process: starts it, stops it, and collects what it says
story.py     what is known of the run, and its closing sentences; pure
show.py      one live line per machine, or plain lines
"""
