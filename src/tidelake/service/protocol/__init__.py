"""What goes over the wire: messages, columns of rows in bytes, the service file, who owns a bucket.

Version 1 is the file ``tidelake_query_v1.proto``; the modules ``tidelake_query_v1_pb2*`` are made
of it by ``scripts/gen_proto.py``. Client and servers share this room and nothing else. No
connection is opened here.
"""
