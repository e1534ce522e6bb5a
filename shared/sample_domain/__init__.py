"""The sample domain: thermometers, their areas and their status."""
