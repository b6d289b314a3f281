"""What a page shows, as frozen values that were computed once for each snapshot.

Metadata alone is read, and files are summed as columns. No HTML and no socket may enter. A part
that cannot be read is shown as its error, and the others go on.
"""
