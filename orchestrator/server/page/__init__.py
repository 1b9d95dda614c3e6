"""Page of the server: shows models, replicas and ranks in a browser, and has their document."""
