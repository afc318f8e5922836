"""Renderers: one module a shape, which gives the blocks of any report that shape."""
