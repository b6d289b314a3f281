"""Topics with change events as a source: messages decoded to rows by table, schemas that follow.

Decoding is pure, messages in and rows out, so that it may run in tasks; only the readers of topics
and the schema registry's client speak to servers. Nothing of targets and journals may enter.
"""
