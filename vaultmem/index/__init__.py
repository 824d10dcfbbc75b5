"""The sidecar: a rebuildable SQLite file that holds what searching needs."""
