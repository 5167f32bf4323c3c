"""Saving and loading: safetensors for the numbers, JSON for what holds them together. Nothing that is read is ever executed."""

from symgrad.io.files import load as load, save as save
