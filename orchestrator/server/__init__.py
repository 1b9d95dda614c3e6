"""Server of an orchestrator: answers the requests of standard protocols."""
