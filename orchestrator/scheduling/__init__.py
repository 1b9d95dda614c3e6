"""Scheduling: gives waiting requests to replicas, and takes their answers."""
