"""The machine the lab runs on: what it lacks (`doctor`) and how it gets it (`setup`).

    distribution  which Linux this is (pure)
    requirements  the programs needed and the packages they come in (pure)
    mirror        which Debian archive apt is configured for (pure)
    apt           what apt knows about its sources and packages (edge)
    setup         what is missing, as steps a person can read (pure)
    perform       gathers for them and runs them (edge)
    incusd        starting the Incus daemon where systemd is not in charge; the storage pool (edge)
    gather        what this machine looks like, read without changing it (edge)
    doctor        one sentence per finding over the gathered facts (pure), and `run()`
    kernel_limits what all containers of a host share, and how much of it they need
    firewall      whether a firewall on this host swallows bridge traffic (pure)
    interception  whether port 53 is intercepted on the way, checked from inside a client

The ways in: `perform.run()`, `doctor.run()`, `interception.intercepted()`.
"""
