"""Messages between processes: channels, local sockets, encrypted connections between hosts."""
