"""Access to the server: TLS, and the tokens, roles and rates of clients."""
