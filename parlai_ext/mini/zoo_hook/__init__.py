"""
What ``parlai.zoo`` sees of the mini zoo: the package ``mini`` beside this file.
"""
