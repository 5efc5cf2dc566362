"""Tables and pictures, from the files that runs leave."""
