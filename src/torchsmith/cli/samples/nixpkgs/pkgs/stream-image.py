"""Writes an image to stdout, as `docker load` reads it: one layer of store paths, a config, a manifest."""

import hashlib
import io
import json
import sys
import tarfile
from pathlib import Path


def add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(data)
    archive.addfile(entry, io.BytesIO(data))


image, config, *paths = sys.argv[1:]
layer = io.BytesIO()
with tarfile.open(fileobj=layer, mode="w") as archive:
    for path in paths:
        archive.add(path)
data = layer.getvalue()
about = json.loads(Path(config).read_text())
about["rootfs"] = {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(data).hexdigest()}"]}
with tarfile.open(fileobj=sys.stdout.buffer, mode="w|") as archive:
    add(archive, "layer.tar", data)
    add(archive, "config.json", json.dumps(about).encode())
    manifest = [{"Config": "config.json", "RepoTags": [image], "Layers": ["layer.tar"]}]
    add(archive, "manifest.json", json.dumps(manifest).encode())
