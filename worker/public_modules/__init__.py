"""Public modules: this folder is on the package's path, so each is imported as `rankmesh.NAME`."""
