"""What a RouterOS version has: its menus, verbs, arguments and values, from published command trees.

    version    version strings, parsed and ordered
    schema     the tree of one version
    trees/     the data, and how it is merged (`scripts/merge-command-trees`)

Pure, over the standard library: the product checks its rows with it, and the lab's stand-in refuses with it.
"""
