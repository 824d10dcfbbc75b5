"""The application: settings, wiring and the operations every surface offers."""
