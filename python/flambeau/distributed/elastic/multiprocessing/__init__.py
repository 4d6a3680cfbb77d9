"""Processes of such a program."""
