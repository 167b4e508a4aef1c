"""
Fetching what is not here: resumed, checked, unpacked safely, never half there.
"""
