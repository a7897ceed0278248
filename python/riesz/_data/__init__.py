"""Tables and parameters: how they are read and checked."""
