"""`python -m anycastlab`: the `anycastlab` program."""

from anycastlab.first_moments import main

main()
