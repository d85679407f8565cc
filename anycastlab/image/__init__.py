"""The base image every machine of the lab starts from: defined, built once, found again by its content hash.

    definition   what is in the image (pure); its hash is part of the alias
    overlay      the files laid over the packages, and the image's metadata, as tarballs (pure)
    commands     the command lines of the build (pure)
    process      running the build so that nothing of it survives an interruption
    failure      why a build failed, as one sentence (pure)
    build        the build itself: lock, checks, work directory, import
    apart        the build in a process of its own, for callers inside pyinfra
    derive       another server's image to start from, fetched and looked at
    store        the image in Incus: find, import, prune; fetch one of a remote

`build.ensure()` is the way in, `build_process.ensure()` from inside pyinfra.
"""
