"""Tables of other formats that become tables of Paimon in place: their files stay as they are.

A reader for each format says which files hold the rows, with which partitions and columns. What it
cannot say in Paimon's words is refused before anything is written. No row is read.
"""
