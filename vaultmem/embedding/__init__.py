"""From text to vectors: embedders, and the store of what they have computed."""
