"""The base image is in the Incus server before the first instance needs it.

Every machine's list of operations begins with this, so `--limit` works; the build happens once, the others wait for it.
"""

from __future__ import annotations

import threading
from collections.abc import Generator

from pyinfra import host, logger
from pyinfra.api import FunctionCommand, operation

from anycastlab import tell
from anycastlab.errors import AnycastlabError
from anycastlab.image import build_process
from anycastlab.image.definition import DerivedDefinition, ImageDefinition
from anycastlab.incus.facts import IncusAlias, IncusServer

LOCAL = "local"

# One build per process; the build's own lock then keeps other processes out. pyinfra's hosts are greenlets, and a file
# lock alone would stop the very greenlet that holds it.
_one_at_a_time = threading.Lock()


def alias_of(image: str, release: int) -> str:
    """What instances are created from: the alias of the built image (also when made from a remote's), or `image`.

    It is known before the image is there.
    """
    if image != LOCAL and ":" not in image:
        return image
    server = host.get_fact(IncusServer) or {}
    architecture = server.get("environment", {}).get("kernel_architecture", "x86_64")
    if image != LOCAL:
        return DerivedDefinition(architecture=architecture, source=image).alias
    return ImageDefinition(architecture=architecture, release=release).alias


@operation()
def base_image(image: str, release: int) -> Generator[FunctionCommand, None, None]:
    """The image `alias_of(image, release)` is in the server; it is built if it is not.

    + image: `local`, an image of a remote to start from such as `images:debian/13`, or an alias that is there
    + release: Debian release of the local image
    """
    alias = alias_of(image, release)
    if host.get_fact(IncusAlias, alias=alias) is not None:
        host.noop(f"image {alias} is there")
        return
    tell.change(f"build the image {alias}" + (f" from {image}" if ":" in image else ""))
    yield FunctionCommand(_build, ("" if image == LOCAL else image, release), {})


# pyinfra heeds the answer of a function with parameters of these names.
def _build(state: object, host: object, image: str, release: int) -> bool:  # noqa: ARG001
    with _one_at_a_time:
        try:
            build_process.ensure(image, release=release, say=logger.info)
        except AnycastlabError as error:
            logger.error(str(error))
            return False
    return True
