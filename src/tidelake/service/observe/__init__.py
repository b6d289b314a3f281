"""What a service shows of itself: figures for people, metrics, log lines, spans.

All of it is made of the status that the address server gives; nothing is counted here.
"""
