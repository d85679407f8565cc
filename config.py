"""pyinfra's settings for every run from this folder."""

from pyinfra import config

from anycastlab.inventory_file import refuse_mistakes

config.FAIL_PERCENT = 0  # the first machine that fails stops the run: the others keep serving as they are

refuse_mistakes()  # in the inventory or group_data: one sentence with file and line, before anything is reached
