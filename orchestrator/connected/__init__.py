"""Connected programs: the client of an orchestrator that another process has."""
