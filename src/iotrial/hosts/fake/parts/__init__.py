"""Families of settings that the fake machine has, by theme."""
