"""The subcommands of `anycastlab`, one module per subject; thin: options in, a function of the package, text out."""
