"""A file for each verb of `./headrace`, named as the verb is."""
