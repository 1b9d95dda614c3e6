"""An orchestrator's configuration: settings, their YAML file, and the topology of its ranks."""
