"""HTTP/1.1 connections: within limits, and with bodies received where they are used."""
