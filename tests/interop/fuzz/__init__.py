"""Random tables, written and read by Tidelake and by Java Paimon, and judged by a dict.

``capability.py`` says what may be drawn, ``draw.py`` draws a program from a seed, ``program.py`` is
what a program is and what must come of it, ``both.py`` runs it, ``shrink.py`` makes a failing one
small.
"""
