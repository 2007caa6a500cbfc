"""Blobs: pages, pictures and other large things by key; rows here, contents in a folder or store."""

from duework.shapes.shape import Shape

SHAPE = Shape("blobs", __name__)
