"""The kernel's door: what Spark, SQL, Kafka, service, procedures and program use of the kernel.

A module for each theme passes on names of the packages below: `tables`, `scan`, `rows`, `write`,
`streams`, `jobs`, `lookup`, `schemas`, `messages`, `metadata`, `codec`, `storage`, `env`. Packages
above import from here, from `types`, `options` and `errors`, and from no other room of the kernel:
an import contract says so. What moves in the kernel then moves here too, and nowhere else.

Nothing is defined in this package, and the kernel does not import it.
"""
