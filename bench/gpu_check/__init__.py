"""GPU check: measures everything that needs a GPU, on the machine that has one."""
