"""
Reading model files as data: an allow-list in the place of pickle, and safetensors.
"""
