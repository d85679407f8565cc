"""A phone that asks DNS questions on a fixed schedule and writes down what became of each one.

Open loop: the schedule is made before the first query and kept whatever happens to the answers, so an outage is as long
in the report as it was for the household. It also measures itself: a run that was sent late is not a measurement.

    schedule (pure) ──► sender (pure loop over a Network) ──► records ──► summary
         mix, stubs            network: sockets, epoll, timerfd

Runs on any machine with Python 3.11 and nothing else: `anycastlab phone …` or the archive of this package.
"""
