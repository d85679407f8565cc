"""pyinfra's settings for every run from this folder."""

from pyinfra import config

config.FAIL_PERCENT = 0  # the first machine that fails stops the run: the others keep serving as they are
