"""Home DNS failover as code, measured: anycast DNS over BGP and BFD, and proof of what the household felt."""

__version__ = "0.1.0"
