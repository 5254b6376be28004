"""A TLS proxy with a self-signed certificate. Takes HOST:PORT of the plain server behind it."""

import datetime
import ipaddress
import socket
import ssl
import sys
import tempfile
import threading

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

key = ec.generate_private_key(ec.SECP256R1())
name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
now = datetime.datetime.now(datetime.timezone.utc)
names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
certificate = (
    x509.CertificateBuilder()
    .subject_name(name)
    .issuer_name(name)
    .public_key(key.public_key())
    .serial_number(x509.random_serial_number())
    .not_valid_before(now - datetime.timedelta(days=1))
    .not_valid_after(now + datetime.timedelta(days=1))
    .add_extension(x509.SubjectAlternativeName(names), critical=False)
    .sign(key, hashes.SHA256())
)
pem = serialization.Encoding.PEM
secret = key.private_bytes(
    pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
with tempfile.NamedTemporaryFile() as file:
    file.write(secret + certificate.public_bytes(pem))
    file.flush()
    context.load_cert_chain(file.name)
host, port = sys.argv[1].rsplit(":", 1)


def copy(source, target):
    try:
        while part := source.recv(65536):
            target.sendall(part)
    except OSError:
        pass
    for end in (source, target):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def serve(plain):
    try:
        client = context.wrap_socket(plain, server_side=True)
    except OSError:
        plain.close()
        return
    server = socket.create_connection((host, int(port)))
    threading.Thread(target=copy, args=(server, client), daemon=True).start()
    copy(client, server)


listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
