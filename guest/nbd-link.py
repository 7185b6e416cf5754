#!/usr/bin/env python3
"""What the kernel's NBD client can do and nbd-client does not ask it for: to wait for a server that is gone, and to go on with its successor.

nbd-link.py N patience SECONDS             requests of /dev/nbdN wait so long for a new connection, once all are dead
nbd-link.py N reconnect SOCKET EXPORT COUNT  connects COUNT times to a unix socket in place of connections that are dead
"""
import os
import socket
import struct
import sys

# <linux/nbd-netlink.h>
RECONFIGURE = 3
INDEX, SOCKETS, DEAD_CONN_TIMEOUT = 1, 7, 8
SOCK_ITEM, SOCK_FD = 1, 1
# <linux/genetlink.h>
GENL_ID_CTRL, GETFAMILY, FAMILY_ID, FAMILY_NAME = 16, 3, 1, 2
NESTED = 0x8000


def attribute(kind, payload):
    return struct.pack('=HH', 4 + len(payload), kind) + payload + b'\0' * (-len(payload) % 4)


def call(link, family, command, attributes):
    """Sends one message and returns the attributes of its answer; a refusal is an OSError."""
    body = struct.pack('=BBH', command, 1, 0) + b''.join(attributes)
    link.send(struct.pack('=IHHII', 16 + len(body), family, 0x5, 1, 0) + body)  # NLM_F_REQUEST | NLM_F_ACK
    answer, found = link.recv(65536), {}
    if struct.unpack_from('=H', answer, 4)[0] != 2:  # NLMSG_ERROR
        at, end = 20, struct.unpack_from('=I', answer)[0]
        while at < end:
            length, kind = struct.unpack_from('=HH', answer, at)
            found[kind & 0x3fff] = answer[at + 4:at + length]
            at += -(-length // 4) * 4
        answer = link.recv(65536)
    error = -struct.unpack_from('=i', answer, 16)[0]
    if error:
        raise OSError(error, os.strerror(error))
    return found


def exactly(sock, count):
    return sock.recv(count, socket.MSG_WAITALL)


def negotiated(path, export):
    """A connection on which requests may be sent: fixed newstyle, NBD_OPT_GO."""
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(path)
    exactly(sock, 18)
    name = export.encode()
    sock.sendall(struct.pack('>I', 3) + b'IHAVEOPT' + struct.pack('>III', 7, 6 + len(name), len(name)) + name + b'\0\0')
    while True:
        _, _, kind, length = struct.unpack('>QIII', exactly(sock, 20))
        exactly(sock, length) if length else None
        if kind == 1:  # NBD_REP_ACK
            return sock
        if kind != 3:  # NBD_REP_INFO
            sys.exit('the server refuses the export: %#x' % kind)


device, what, *rest = sys.argv[1:]
link = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 16)
family = struct.unpack('=H', call(link, GENL_ID_CTRL, GETFAMILY, [attribute(FAMILY_NAME, b'nbd\0')])[FAMILY_ID])[0]
attributes = [attribute(INDEX, struct.pack('=I', int(device)))]
if what == 'patience':
    attributes.append(attribute(DEAD_CONN_TIMEOUT, struct.pack('=Q', int(rest[0]))))
else:
    path, export, count = rest
    connections = [negotiated(path, export) for _ in range(int(count))]
    items = b''.join(attribute(SOCK_ITEM | NESTED, attribute(SOCK_FD, struct.pack('=I', each.fileno()))) for each in connections)
    attributes.append(attribute(SOCKETS | NESTED, items))
call(link, family, RECONFIGURE, attributes)
