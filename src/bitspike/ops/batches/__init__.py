"""Batches of training samples: gathered, scattered from events, jittered."""
