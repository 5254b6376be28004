// The panel works without this module; it adds live updates, keys and copying.
