"""A wheel called mindspore-lite that leads to Rankmesh.

Usage: python mindspore_lite_wheel.py VERSION FOLDER

The wheel has one .pth file, which puts the folder of `rankmesh compat-path` on sys.path after
site-packages: a package mindspore_lite in there takes precedence. The format of wheels:
https://packaging.python.org/specifications/binary-distribution-format
"""

from __future__ import annotations

import base64
import hashlib
import sys
import zipfile
from pathlib import Path

from rankmesh.launch.compat import compat_path


def write(version: str, folder: Path) -> Path:
    """Write the wheel for the Python that runs this, and return its path."""
    name = f"mindspore_lite-{version}+rankmesh"
    files = {
        "mindspore_lite_rankmesh.pth": f"{compat_path()}\n",
        f"{name}.dist-info/METADATA": (
            f"Metadata-Version: 2.1\nName: mindspore-lite\nVersion: {version}+rankmesh\n"
            f"Summary: Leads `import mindspore_lite` to Rankmesh\nRequires-Dist: rankmesh\n"
        ),
        f"{name}.dist-info/WHEEL": (
            "Wheel-Version: 1.0\nGenerator: rankmesh\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        ),
    }
    record = "".join(
        f"{path},sha256={_digest(text)},{len(text.encode())}\n" for path, text in files.items()
    )
    files[f"{name}.dist-info/RECORD"] = f"{record}{name}.dist-info/RECORD,,\n"
    path = folder / f"{name}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for inside, text in files.items():
            wheel.writestr(inside, text)
    return path


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python mindspore_lite_wheel.py VERSION FOLDER")
    print(write(sys.argv[1], Path(sys.argv[2])))
