"""The page and the pictures: what other rooms found out, for people who would rather look than read."""
